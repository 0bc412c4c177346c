"""Fields of Gaussians: the statistical manifold of the paper's Definitions 1-2 and Proposition 1."""

from poli.ellipsoids.field import Ellipsoids

__all__ = ["Ellipsoids"]

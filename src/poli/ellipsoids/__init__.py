"""Fields of Gaussians: the statistical manifold of the paper's Definitions 1-2 and Proposition 1."""

from poli.ellipsoids.adapters import Converted
from poli.ellipsoids.files import Stored
from poli.ellipsoids.gaussian import Densities

__all__ = ["Ellipsoids"]


class Ellipsoids(Densities, Stored, Converted):
    """A field of 3D Gaussians N(mean, covariance), one per point, which describe the local surface and its uncertainty.

    Covariances must be symmetric and positive semidefinite, which the constructor checks. `viewpoint` is the position of the sensor
    (one for all points, or one per point); normals point towards it. Fields are immutable: every operation returns a new one.
    """

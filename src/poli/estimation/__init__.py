"""From points to ellipsoids. Nothing here needs torch."""

from poli.estimation.pca import pca

__all__ = ["pca"]

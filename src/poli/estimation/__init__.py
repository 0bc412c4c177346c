"""Estimate ellipsoids from points. Nothing here needs torch."""

from poli.estimation.estimate import estimate, load_model
from poli.estimation.pca import pca

__all__ = ["estimate", "load_model", "pca"]

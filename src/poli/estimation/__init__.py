"""Estimate ellipsoids from points. Nothing here needs torch."""

from poli.estimation.inference import estimate
from poli.estimation.pca import pca

__all__ = ["estimate", "pca"]

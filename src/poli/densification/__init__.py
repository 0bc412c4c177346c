"""Densify scans by sampling their ellipsoids, for systems that take only points."""

from poli.configs import DensifyConfig
from poli.densification.densify import densify, densify_records

__all__ = ["DensifyConfig", "densify", "densify_records"]

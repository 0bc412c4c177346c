"""Densify scans by sampling their ellipsoids, for systems that take only points."""

from poli.tasks.densify.config import DensifyConfig
from poli.tasks.densify.scans import densify, densify_records

__all__ = ["DensifyConfig", "densify", "densify_records"]

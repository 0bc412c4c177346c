"""Denser scans for systems that know nothing of ellipsoids."""

from poli.tasks.densify.config import DensifyConfig
from poli.tasks.densify.scans import densify, densify_records

__all__ = ["DensifyConfig", "densify", "densify_records"]

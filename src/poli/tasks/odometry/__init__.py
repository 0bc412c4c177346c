"""Odometry on ellipsoids: scan to scan, or scan to map."""

from poli.tasks.deskewing import deskew
from poli.tasks.odometry.config import OdometryConfig
from poli.tasks.odometry.ellipsoid_map import EllipsoidMap
from poli.tasks.odometry.odometer import Odometer, odometry
from poli.tasks.odometry.step import Status, Step, TrackingLost

__all__ = ["EllipsoidMap", "Odometer", "OdometryConfig", "Status", "Step", "TrackingLost", "deskew", "odometry"]

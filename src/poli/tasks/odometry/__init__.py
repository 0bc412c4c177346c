"""Odometry on ellipsoids: scan to scan, or scan to map."""

from poli.tasks.deskewing import deskew
from poli.tasks.odometry.config import OdometryConfig
from poli.tasks.odometry.drive_map import DriveMap, MapFile
from poli.tasks.odometry.ellipsoid_map import EllipsoidMap
from poli.tasks.odometry.odometer import Odometer, odometry
from poli.tasks.odometry.step import Status, Step, TrackingLost

__all__ = [
    "DriveMap", "EllipsoidMap", "MapFile", "Odometer", "OdometryConfig", "Status", "Step", "TrackingLost", "deskew", "odometry",
]  # fmt: skip

"""Odometry on ellipsoids: scan to scan, or scan to map."""

from poli.configs import OdometryConfig
from poli.lidar_odometry.deskewing import deskew
from poli.lidar_odometry.drive_map import DriveMap, MapFile
from poli.lidar_odometry.local_map import EllipsoidMap
from poli.lidar_odometry.odometer import Odometer, odometry
from poli.lidar_odometry.step import Status, Step, TrackingLost

__all__ = [
    "DriveMap", "EllipsoidMap", "MapFile", "Odometer", "OdometryConfig", "Status", "Step", "TrackingLost", "deskew", "odometry",
]  # fmt: skip

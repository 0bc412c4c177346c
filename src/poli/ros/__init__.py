"""Live processing of point clouds in ROS 1 and ROS 2: three jobs, one loop, and a small interface to either ROS."""

from poli.configs import EstimateConfig, Frames
from poli.ros.jobs import DensifyJob, EstimateJob
from poli.ros.loop import serve
from poli.ros.odometry_job import OdometryJob
from poli.ros.transport import Transport, connect

__all__ = ["DensifyJob", "EstimateConfig", "EstimateJob", "Frames", "OdometryJob", "Transport", "connect", "serve"]

"""Live processing of point clouds in ROS 1 and ROS 2: three jobs, one loop, and a small interface to either ROS."""

from poli.live.densify_job import DensifyJob
from poli.live.estimate_job import EstimateConfig, EstimateJob
from poli.live.loop import serve
from poli.live.odometry_job import Frames, OdometryJob
from poli.live.transport import Transport, connect

__all__ = ["DensifyJob", "EstimateConfig", "EstimateJob", "Frames", "OdometryJob", "Transport", "connect", "serve"]

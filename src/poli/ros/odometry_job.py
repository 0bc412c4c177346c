"""`poli node odometry`: publish the pose of the sensor, its path, and a map of the surroundings."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from poli.beams.corrections import BeamCalibration
from poli.configs import Frames
from poli.io.messages import TimeUnit, check_unit, scan_from_cloud, scan_from_message
from poli.io.pointcloud2 import stamp_of_cloud
from poli.lidar_odometry import Odometer, OdometryConfig, Status, TrackingLost
from poli.ros.jobs import cloud_message, ellipsoid_columns, name_of, sphere
from poli.ros.loop import CLOUD, Fatal, Job
from poli.ros.transport import Transport, message_type
from poli.scan import Scan
from poli.se3 import inverse, log, quaternion

_REWOUND = 1.0  # seconds: a stamp this much earlier than the last means that a recording was started again
_UNNAMED = "lidar"  # the sensor's frame, if the clouds name none
_UNKNOWN = 1e6  # variance of a velocity that is not known
_SPACING = 0.1  # meters between the poses of the path


class OdometryJob(Job):
    """Topics are below `target`: target/odometry, target/path and target/map."""

    name = "odometry"
    tunable = ("map_every", "map_frame", "sensor_frame")
    config: Frames

    def __init__(
        self, transport: Transport, source: str, target: str, config: OdometryConfig, frames: Frames = Frames(),  # noqa: B008
        calibration: BeamCalibration | None = None, time_unit: TimeUnit | None = None,
    ) -> None:  # fmt: skip
        self._transport, self._source, self._odometry_config, self.config = transport, source, config, frames
        self._beams, self._unit = calibration, time_unit
        check_unit(time_unit)
        self._odometry = transport.publisher("nav_msgs/Odometry", f"{target}/odometry")
        self._path = transport.publisher("nav_msgs/Path", f"{target}/path")
        self._map = transport.publisher(CLOUD, f"{target}/map")
        self._tf = transport.publisher("tf2_msgs/TFMessage", "/tf") if frames.tf else None
        self._start()

    def _start(self) -> None:
        self._odometer = Odometer(self._odometry_config)
        self._poses: list[Any] = []  # of the path
        self._at = np.full(3, np.inf)
        self._missed = self._stamp = 0
        self._sent = time.monotonic()

    def warm_up(self) -> None:
        """Two scans, so that aligning is loaded, too."""
        odometer = Odometer(replace(self._odometry_config, deskew="off"))
        for _ in range(2):
            odometer.add(Scan(sphere()))

    def process(self, cloud: Any) -> str:
        where = name_of(self._source, cloud)
        stamp = stamp_of_cloud(cloud) or self._transport.now()
        if self._odometry_config.deskew == "off":  # the times of the points do not matter, not even if they make no sense
            scan = replace(scan_from_cloud(cloud, where), stamp=stamp)
        else:
            scan = scan_from_message(cloud, where, stamp, self._unit)
        scan = scan if self._beams is None else self._beams.apply(scan)
        warning = ""
        if self._stamp - stamp > _REWOUND * 1e9:
            warning = f"{where}: {(self._stamp - stamp) * 1e-9:.1f} s earlier than the cloud before; starting again"
            self._start()
        before = self._odometer.steps[-1] if self._odometer.steps else None
        try:
            step = self._odometer.add(scan)
        except TrackingLost as error:
            raise Fatal(f"{where}: {error.why}; pass --on-loss restart to continue with a new map") from None
        self._stamp = stamp
        self._missed = self._missed + 1 if step.status is Status.PREDICTED else 0
        T, covariance = step.T_world_scan, max(self._missed, 1) ** 2 * step.covariance
        velocity, seconds = np.zeros(6), None
        if before is not None:
            self._odometer.steps[-2] = replace(before, alignment=None)  # memory: a node may run for days
            if before.stamp is not None and step.status is not Status.RESTARTED:
                seconds = (stamp - before.stamp) * 1e-9
                velocity = log(inverse(before.T_world_scan) @ T) / seconds
        sensor = self.config.sensor_frame or cloud.header.frame_id.lstrip("/") or _UNNAMED  # tf refuses a slash
        self._publish(self._transport.time(stamp), sensor, T, covariance, velocity, seconds)
        return warning or ("" if step.trusted else f"{where}: {step.status.value}: {step.note}")

    def _publish(
        self, stamp: Any, sensor: str, T: np.ndarray, covariance: np.ndarray, velocity: np.ndarray, seconds: float | None
    ) -> None:
        world = self.config.map_frame
        said = message_type("nav_msgs/Odometry")(child_frame_id=sensor)
        said.header.stamp, said.header.frame_id = stamp, world
        _fill(said.pose.pose.position, said.pose.pose.orientation, T)
        said.pose.covariance = fixed_axes(covariance, T).ravel().tolist()
        twist = said.twist.twist
        twist.angular.x, twist.angular.y, twist.angular.z = velocity[:3].tolist()
        twist.linear.x, twist.linear.y, twist.linear.z = velocity[3:].tolist()
        # Of the difference of two poses of the same accuracy, in the sensor's frame.
        spread = 2.0 / seconds**2 * fixed_axes(covariance, np.eye(4)) if seconds else _UNKNOWN * np.eye(6)
        said.twist.covariance = spread.ravel().tolist()
        self._odometry.publish(said)
        if self._tf is not None:
            moved = message_type("geometry_msgs/TransformStamped")(child_frame_id=sensor)
            moved.header.stamp, moved.header.frame_id = stamp, world
            _fill(moved.transform.translation, moved.transform.rotation, T)
            self._tf.publish(message_type("tf2_msgs/TFMessage")(transforms=[moved]))
        if not self._poses or np.linalg.norm(T[:3, 3] - self._at) >= _SPACING:
            pose = message_type("geometry_msgs/PoseStamped")()
            pose.header.stamp, pose.header.frame_id = stamp, world
            _fill(pose.pose.position, pose.pose.orientation, T)
            self._poses.append(pose)
            self._at = T[:3, 3]
        self._last = stamp, T

    def after(self) -> None:
        """Publish path and map if it is time and someone listens."""
        if not self.config.map_every or time.monotonic() - self._sent < self.config.map_every or not self._poses:
            return
        self._sent = time.monotonic()
        stamp, T = self._last
        if self._path.listeners():
            path = message_type("nav_msgs/Path")(poses=list(self._poses))
            path.header.stamp, path.header.frame_id = stamp, self.config.map_frame
            self._path.publish(path)
        if self._map.listeners() and self._odometer.map is not None:
            field = self._odometer.map.field
            columns = ellipsoid_columns(field, T[:3, 3])
            self._map.publish(cloud_message(self._transport, field.means.astype(np.float32), columns, stamp, self.config.map_frame))


def fixed_axes(covariance: np.ndarray, T: np.ndarray) -> np.ndarray:  # (6, 6), (4, 4) -> (6, 6)
    """Convert a covariance of (rotation, translation) in the sensor's frame to ROS's: (translation, rotation) about world axes."""
    A = np.zeros((6, 6))
    A[:3, 3:] = A[3:, :3] = T[:3, :3]
    return A @ covariance @ A.T


def _fill(position: Any, orientation: Any, T: np.ndarray) -> None:
    position.x, position.y, position.z = T[:3, 3].tolist()
    orientation.x, orientation.y, orientation.z, orientation.w = quaternion(T[:3, :3]).tolist()

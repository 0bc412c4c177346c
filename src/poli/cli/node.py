"""`poli node`: process point clouds live, as a node of ROS 1 or ROS 2."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from poli.beams.corrections import BeamCalibration
from poli.cli.commands import Commands, Only
from poli.configs import DensifyConfig, EstimateConfig, Frames, OdometryConfig
from poli.options import option


class _Job(TyperCommand):
    """A command that also takes the arguments of ROS, which launch files append: NAME:=VALUE, and all after --ros-args."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        start = args.index("--ros-args") if "--ros-args" in args else len(args)
        ctx.meta["ros"] = [word for word in args[:start] if ":=" in word] + args[start:]
        return super().parse_args(ctx, [word for word in args[:start] if ":=" not in word])


@dataclass(frozen=True)
class NodeOptions:
    """Options of every node."""

    source: str = option("/points", "Input topic (PointCloud2).", flag="--in")
    target: str = option("", "Output topic; of odometry, the namespace of the topics odometry, path and map.", flag="--out")
    name: str = option("", "Name of the node.")
    ros: Literal["auto", "1", "2"] = option("auto", "1: rospy, 2: rclpy; auto: by ROS_VERSION, or else what can be imported.")
    log_every: float = option(10.0, "Time between log lines with counts, rate and latency; 0: none.", unit="seconds", least=0.0)

    def serve(self, ctx: typer.Context, job: Any, *settings: Any) -> None:
        """Connect to ROS and process clouds until the node is shut down."""
        from poli.ros import connect, serve

        transport = connect(self.name, self.ros, ctx.meta.get("ros", ()))
        serve(transport, lambda: job(transport, self.source, self.target, *settings), self.source, self.log_every)


node_app = Commands(name="node", help="Process point clouds live, as a node of ROS 1 or 2.")


@node_app.command(cls=_Job)
def densify(
    ctx: typer.Context,
    node: Annotated[NodeOptions, Only(target="/points_dense", name="poli_densify")],
    config: DensifyConfig,
) -> None:
    """Publish every cloud with samples of its surfaces appended, as `poli densify` adds them.

    While a cloud is processed, only the newest of those that arrive is kept.
    Clouds that cannot be densified are published unchanged, with a warning.
    Parameters: max_error, per_point, max_sigma, flat, max_thickness, model, voxel,
    planarity, seed. per_point and max_sigma are -1 if not given.

    Examples:
    poli node densify --in /velodyne_points --out /velodyne_points_dense
    ros2 param set /poli_densify max_sigma 4.0
    """
    from poli.ros import DensifyJob

    node.serve(ctx, DensifyJob, config)


@node_app.command(cls=_Job)
def estimate(
    ctx: typer.Context,
    node: Annotated[NodeOptions, Only(target="/points_estimated", name="poli_estimate")],
    config: Annotated[EstimateConfig, Only("model", "upright", "curvature", "floor", "calibration", voxel=0.2)],
) -> None:
    """Publish every cloud with a normal and a covariance for each point, as further fields.

    The fields are normal_x, normal_y, normal_z, curvature, and cov_xx, cov_xy, cov_xz,
    cov_yy, cov_yz, cov_zz in square meters. `curvature` is PCL's surface variation;
    --curvature adds the principal curvatures, curvature_1 and curvature_2, in 1/m.
    The cloud's own fields are kept; invalid returns are left out. See
    examples/ros1/covariance_listener.cpp for C++.
    While a cloud is processed, only the newest of those that arrive is kept.
    Parameters: model, voxel, upright, curvature, floor.

    Examples:
    poli node estimate --in /velodyne_points --out /velodyne_points_normals
    """
    from poli.ros import EstimateJob

    node.serve(ctx, EstimateJob, config)


@node_app.command(cls=_Job)
def odometry(
    ctx: typer.Context,
    node: Annotated[NodeOptions, Only(target="/poli", name="poli_odometry")],
    config: Annotated[OdometryConfig, Only(on_loss="restart")],
    frames: Frames,
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None, typer.Option(help="Of the points' times; default: guessed.")
    ] = None,
    calibration: Annotated[Path | None, typer.Option(help="Correct the beams, with the result of `poli calibrate`.")] = None,
) -> None:
    """Publish the pose of the sensor, with covariance, its path, and a map of its surroundings.

    OUT/odometry (nav_msgs/Odometry) and /tf follow each cloud. OUT/path and OUT/map
    follow every few seconds if someone listens; the map has the fields of
    `poli node estimate`. The covariance is that of the pose in the map, without drift.
    While a cloud is processed, only the newest of those that arrive is kept.
    Parameters: map_every, map_frame, sensor_frame.

    Examples:
    poli node odometry --in /velodyne_points --min-range 2
    poli node odometry --in /points --sensor-frame lidar --no-tf
    """
    from poli.ros import OdometryJob

    beams = None if calibration is None else BeamCalibration.load(calibration)
    node.serve(ctx, OdometryJob, config, frames, beams, time_unit)

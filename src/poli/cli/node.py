"""`poli node`: process point clouds live, as a node of ROS 1 or ROS 2."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from poli.beams.corrections import BeamCalibration
from poli.cli.commands import Commands, Only
from poli.configs import DensifyConfig, EstimateConfig, OdometryConfig

if TYPE_CHECKING:
    from poli.ros import Transport

_DEFAULT = "densify"  # the job of `poli node` without one, as before there were others


class _Jobs(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and not args[0].startswith("-") and ":=" not in args[0]
        return super().parse_args(ctx, args if named or args[:1] == ["--help"] else [_DEFAULT, *args])


class _Job(TyperCommand):
    """A command that also takes the arguments of ROS, which launch files append: NAME:=VALUE, and all after --ros-args."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        start = args.index("--ros-args") if "--ros-args" in args else len(args)
        ctx.meta["ros"] = [word for word in args[:start] if ":=" in word] + args[start:]
        return super().parse_args(ctx, [word for word in args[:start] if ":=" not in word])


Source = Annotated[str, typer.Option("--in", help="Input topic (PointCloud2).")]
Ros = Literal["auto", "1", "2"]
WhichRos = Annotated[Ros, typer.Option(help="1: rospy, 2: rclpy; auto: by ROS_VERSION, or else what can be imported.")]
LogEvery = Annotated[float, typer.Option(min=0.0, help="Seconds between log lines with counts, rate and latency; 0: none.")]
NodeName = Annotated[str, typer.Option(help="Name of the node.")]

node = Commands(
    name="node",
    cls=_Jobs,
    help="Process point clouds live, as a node of ROS 1 or 2: densify (the default), estimate or odometry.",
)


@node.command(cls=_Job)
def densify(
    ctx: typer.Context,
    source: Source = "/points",
    target: Annotated[str, typer.Option("--out", help="Output topic.")] = "/points_dense",
    *,
    config: DensifyConfig,
    name: NodeName = "poli_densify",
    ros: WhichRos = "auto",
    log_every: LogEvery = 10.0,
) -> None:
    """Publish every cloud with samples of its surfaces appended, as `poli densify` adds them.

    While a cloud is processed, only the newest of those that arrive is kept.
    Clouds that cannot be densified are published unchanged, with a warning.
    Parameters: max_error, per_point, max_sigma, flat, max_thickness, model, voxel,
    planarity, seed. per_point and max_sigma are -1 if not given.

    Examples:
    poli node densify --in /velodyne_points --out /velodyne_points_dense
    poli node densify --per-point 3 --voxel 0.4
    ros2 param set /poli_densify max_sigma 4.0
    """
    from poli.ros import DensifyJob, serve

    transport = _connect(ctx, name, ros)
    serve(transport, lambda: DensifyJob(transport, source, target, config), source, log_every)


@node.command(cls=_Job)
def estimate(
    ctx: typer.Context,
    source: Source = "/points",
    target: Annotated[str, typer.Option("--out", help="Output topic.")] = "/points_estimated",
    *,
    config: Annotated[EstimateConfig, Only("model", "upright", "floor", "calibration", voxel=0.2)],
    name: NodeName = "poli_estimate",
    ros: WhichRos = "auto",
    log_every: LogEvery = 10.0,
) -> None:
    """Publish every cloud with a normal and a covariance for each point, as further fields.

    The fields are normal_x, normal_y, normal_z, curvature, and cov_xx, cov_xy, cov_xz,
    cov_yy, cov_yz, cov_zz in square meters. The cloud's own fields are kept; invalid
    returns are left out. See examples/ros1/covariance_listener.cpp for C++.
    While a cloud is processed, only the newest of those that arrive is kept.
    Parameters: model, voxel, upright, floor.

    Examples:
    poli node estimate --in /velodyne_points --out /velodyne_points_normals
    poli node estimate --voxel 0
    """
    from poli.ros import EstimateJob, serve

    transport = _connect(ctx, name, ros)
    serve(transport, lambda: EstimateJob(transport, source, target, config), source, log_every)


@node.command(cls=_Job)
def odometry(
    ctx: typer.Context,
    source: Source = "/points",
    target: Annotated[str, typer.Option("--out", help="Namespace of the topics odometry, path and map.")] = "/poli",
    *,
    config: Annotated[OdometryConfig, Only(on_loss="restart")],
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None, typer.Option(help="Unit of the points' times; default: guessed, if that is safe.")
    ] = None,
    map_frame: Annotated[str, typer.Option(help="Name of the world frame: the sensor's frame at the first cloud.")] = "odom",
    sensor_frame: Annotated[str, typer.Option(help="Name of the sensor's frame; default: that of the clouds.")] = "",
    tf: Annotated[bool, typer.Option("--tf/--no-tf", help="Publish the transform from the world to the sensor on /tf.")] = True,
    map_every: Annotated[float, typer.Option(min=0.0, help="Seconds between maps, and between paths; 0: never.")] = 5.0,
    calibration: Annotated[Path | None, typer.Option(help="Correct the beams, with the result of `poli calibrate`.")] = None,
    name: NodeName = "poli_odometry",
    ros: WhichRos = "auto",
    log_every: LogEvery = 10.0,
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
    from poli.ros import Frames, OdometryJob, serve

    frames = Frames(map_frame, sensor_frame, tf, map_every)
    beams = None if calibration is None else BeamCalibration.load(calibration)
    transport = _connect(ctx, name, ros)
    serve(transport, lambda: OdometryJob(transport, source, target, config, frames, beams, time_unit), source, log_every)


def _connect(ctx: typer.Context, name: str, ros: Ros) -> "Transport":
    from poli.ros import connect

    return connect(name, ros, ctx.meta.get("ros", ()))

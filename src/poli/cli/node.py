"""`poli node`: process point clouds live, as a node of ROS 1 or ROS 2."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from poli.cli.commands import Commands
from poli.cli.data_options import CalibrationFile, Deskew, DeskewMode, ModelName, load_calibration

if TYPE_CHECKING:
    from poli.io.messages import TimeUnit as Unit
    from poli.ros import Transport

_DEFAULT = "densify"  # the job of `poli node` without one, as before there were others


class Ros(StrEnum):
    auto = "auto"
    one = "1"
    two = "2"


class TimeUnit(StrEnum):
    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"


class OnLoss(StrEnum):
    stop = "stop"
    restart = "restart"


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
WhichRos = Annotated[Ros, typer.Option(help="1: rospy, 2: rclpy; auto: by ROS_VERSION, or else what can be imported.")]
LogEvery = Annotated[float, typer.Option(min=0.0, help="Seconds between log lines with counts, rate and latency; 0: none.")]
NodeName = Annotated[str, typer.Option(help="Name of the node.")]
Tilted = Annotated[bool, typer.Option("--tilted", help="The sensor's z axis does not point up.")]

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
    max_error: Annotated[
        float, typer.Option(min=0.0, help="Accepted error of samples in meters; none where a larger one is expected.")
    ] = 0.05,
    per_point: Annotated[
        int | None, typer.Option(min=0, help="Draw this many samples per ellipsoid, instead of filling gaps between rings.")
    ] = None,
    max_sigma: Annotated[
        float | None, typer.Option(min=0.0, help="Draw samples this far, in standard deviations; 12 if only --per-point is given.")
    ] = None,
    model: ModelName = "lidar",
    voxel: Annotated[float, typer.Option(min=0.0, help="Voxel size in meters, one ellipsoid per voxel; 0: one per point.")] = 0.2,
    tilted: Tilted = False,
    calibration: CalibrationFile = None,
    name: NodeName = "poli_densify",
    ros: WhichRos = Ros.auto,
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
    from poli.densification import DensifyConfig
    from poli.ros import DensifyJob, serve

    config = DensifyConfig(
        per_point=per_point, max_sigma=max_sigma, max_error=max_error, model=model, voxel=voxel, upright=not tilted,
        calibration=load_calibration(calibration),
    )  # fmt: skip
    transport = _connect(ctx, name, ros)
    serve(transport, lambda: DensifyJob(transport, source, target, config), source, log_every)


@node.command(cls=_Job)
def estimate(
    ctx: typer.Context,
    source: Source = "/points",
    target: Annotated[str, typer.Option("--out", help="Output topic.")] = "/points_estimated",
    model: ModelName = "lidar",
    voxel: Annotated[float, typer.Option(min=0.0, help="Downsample first: voxel size in meters; 0: use every point.")] = 0.2,
    floor: Annotated[float, typer.Option(min=0.0, help="Thicken each ellipsoid by this many meters.")] = 0.0,
    tilted: Tilted = False,
    calibration: CalibrationFile = None,
    name: NodeName = "poli_estimate",
    ros: WhichRos = Ros.auto,
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
    from poli.ros import EstimateConfig, EstimateJob, serve

    config = EstimateConfig(model, voxel, not tilted, floor, load_calibration(calibration))
    transport = _connect(ctx, name, ros)
    serve(transport, lambda: EstimateJob(transport, source, target, config), source, log_every)


@node.command(cls=_Job)
def odometry(
    ctx: typer.Context,
    source: Source = "/points",
    target: Annotated[str, typer.Option("--out", help="Namespace of the topics odometry, path and map.")] = "/poli",
    model: ModelName = "lidar",
    voxel: Annotated[float, typer.Option(min=0.0, help="Voxel size in meters; 0: chosen from the first scan.")] = 0.0,
    deskew: DeskewMode = Deskew.auto,
    time_unit: Annotated[
        TimeUnit | None, typer.Option(help="Unit of the points' times; default: guessed, if that is safe.")
    ] = None,
    min_range: Annotated[float, typer.Option(min=0.0, help="Drop returns nearer than this, in meters (the vehicle itself).")] = 0.0,
    max_range: Annotated[float, typer.Option(help="Drop returns farther than this, in meters.")] = 120.0,
    radius: Annotated[float, typer.Option(help="Keep the map within this distance of the sensor, in meters.")] = 120.0,
    on_loss: Annotated[
        OnLoss, typer.Option(help="If a scan cannot be localized: end the node, or start a new map.")
    ] = OnLoss.restart,
    map_frame: Annotated[str, typer.Option(help="Name of the world frame: the sensor's frame at the first cloud.")] = "odom",
    sensor_frame: Annotated[str, typer.Option(help="Name of the sensor's frame; default: that of the clouds.")] = "",
    tf: Annotated[bool, typer.Option("--tf/--no-tf", help="Publish the transform from the world to the sensor on /tf.")] = True,
    map_every: Annotated[float, typer.Option(min=0.0, help="Seconds between maps, and between paths; 0: never.")] = 5.0,
    tilted: Tilted = False,
    calibration: CalibrationFile = None,
    name: NodeName = "poli_odometry",
    ros: WhichRos = Ros.auto,
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
    from poli.lidar_odometry import OdometryConfig
    from poli.ros import Frames, OdometryJob, serve

    config = OdometryConfig(
        voxel=voxel, model=model, upright=not tilted, deskew=deskew.value, min_range=min_range, max_range=max_range,
        radius=radius, on_loss=on_loss.value,
    )  # fmt: skip
    frames, beams = Frames(map_frame, sensor_frame, tf, map_every), load_calibration(calibration)
    transport = _connect(ctx, name, ros)
    unit: Unit | None = time_unit.value if time_unit else None
    serve(transport, lambda: OdometryJob(transport, source, target, config, frames, beams, unit), source, log_every)


def _connect(ctx: typer.Context, name: str, ros: Ros) -> "Transport":
    from poli.ros import connect

    return connect(name, ros.value, ctx.meta.get("ros", ()))

"""`poli node`: a ROS 2 node that densifies point clouds as they arrive. It adds only rclpy to `poli densify`."""

from array import array
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.data_options import CalibrationFile, load_calibration
from poli.cli.model_options import ModelName

if TYPE_CHECKING:
    from poli.tasks.densify import DensifyConfig

_PARAMETERS = (
    "per_point",
    "max_sigma",
    "flat",
    "max_thickness",
    "model",
    "voxel",
    "planarity",
    "seed",
)  # can change at runtime


def node(
    source: Annotated[str, typer.Option("--in", help="Input topic.")] = "/points",
    target: Annotated[str, typer.Option("--out", help="Output topic.")] = "/points_dense",
    per_point: Annotated[int, typer.Option(min=0, help="Samples per ellipsoid.")] = 1,
    max_sigma: Annotated[
        float, typer.Option(min=0.0, help="Maximum distance of a sample from its parent, in standard deviations.")
    ] = 12.0,
    model: ModelName = "lidar",
    voxel: Annotated[float, typer.Option(min=0.0, help="Voxel size in meters, one ellipsoid per voxel; 0: one per point.")] = 0.2,
    calibration: CalibrationFile = None,
    name: Annotated[str, typer.Option(help="Name of the node.")] = "poli_densify",
) -> None:
    """Densify PointCloud2 messages live, as a ROS 2 node.

    Needs rclpy, which comes with ROS 2 and not from pip: source its setup.bash, and
    run poli from an environment that sees it (python -m venv --system-site-packages).
    ROS parameters: per_point, max_sigma, flat, max_thickness, model, voxel, planarity, seed.
    The queue holds one cloud: older ones are dropped while a cloud is being processed.

    Examples:
    poli node --in /velodyne_points --out /velodyne_points_dense
    poli node --per-point 3 --voxel 0.4
    ros2 param set /poli_densify max_sigma 4.0
    """
    from poli.errors import PoliError
    from poli.tasks.densify import DensifyConfig

    beams = load_calibration(calibration)
    try:
        import rclpy
    except ImportError:
        raise PoliError(
            "poli node needs rclpy, which could not be imported: source the setup.bash of your ROS 2, and run poli from an "
            "environment created with python -m venv --system-site-packages"
        ) from None
    config = DensifyConfig(per_point=per_point, max_sigma=max_sigma, model=model, voxel=voxel, calibration=beams)
    rclpy.init()
    densifier = rclpy.create_node(name)
    try:
        serve(densifier, source, target, config)
        rclpy.spin(densifier)
    except KeyboardInterrupt:
        pass
    finally:
        densifier.destroy_node()
        rclpy.try_shutdown()


def serve(densifier: Any, source: str, target: str, config: "DensifyConfig") -> None:
    """Subscribe, densify and publish. Parameter changes apply from the next cloud on."""
    from rcl_interfaces.msg import SetParametersResult
    from rclpy.qos import QoSProfile, ReliabilityPolicy
    from sensor_msgs.msg import PointCloud2

    from poli.errors import PoliError
    from poli.printable import printable
    from poli.tasks.densify.clouds import densify_cloud

    current = [config]
    for key in _PARAMETERS:
        densifier.declare_parameter(key, asdict(config)[key])

    def change(parameters: list[Any]) -> Any:
        wanted = {p.name: p.value for p in parameters if p.name in _PARAMETERS}
        try:
            current[0] = replace(current[0], **wanted)
        except PoliError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    # A reliable publisher and a best-effort subscriber are compatible with peers of either reliability.
    publisher = densifier.create_publisher(PointCloud2, target, QoSProfile(depth=5, reliability=ReliabilityPolicy.RELIABLE))

    def heard(cloud: Any) -> None:
        where = f"{source}, {cloud.header.stamp.sec}.{cloud.header.stamp.nanosec:09d}"
        try:
            if cloud.height * cloud.width:
                densify_cloud(cloud, current[0], where, lambda data: array("B", data.tobytes()))
        except PoliError as error:
            densifier.get_logger().warning(printable(f"published unchanged: {error}"))
        publisher.publish(cloud)

    densifier.add_on_set_parameters_callback(change)
    densifier.create_subscription(PointCloud2, source, heard, QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT))
    densifier.get_logger().info(f"densifying {source} to {target}")

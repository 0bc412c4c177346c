"""`poli node`: a ROS 2 node that densifies clouds as they come. All it adds to `poli densify` is rclpy."""

from array import array
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
)  # what may change while it runs


def node(
    source: Annotated[str, typer.Option("--in", help="Topic of the clouds.")] = "/points",
    target: Annotated[str, typer.Option("--out", help="Topic of the densified clouds.")] = "/points_dense",
    per_point: Annotated[int, typer.Option(min=0, help="Samples of each ellipsoid.")] = 1,
    max_sigma: Annotated[
        float, typer.Option(min=0.0, help="Standard deviations: how far from its parent a sample may lie.")
    ] = 12.0,
    model: ModelName = "lidar",
    voxel: Annotated[float, typer.Option(min=0.0, help="Meters: one ellipsoid a voxel; 0: one a point.")] = 0.2,
    name: Annotated[str, typer.Option(help="Of the node.")] = "poli_densify",
) -> None:
    """Densify PointCloud2 messages live: a node for ROS 2.

    Needs rclpy, which comes with ROS 2 and not from pip: source its setup.bash, and
    run poli from an environment that sees it (python -m venv --system-site-packages).
    per_point, max_sigma, flat, max_thickness, model, voxel, planarity and seed are its parameters.
    Only the newest cloud waits: what comes while one is worked on is dropped.

    Examples:
    poli node --in /velodyne_points --out /velodyne_points_dense
    poli node --per-point 3 --voxel 0.4
    ros2 param set /poli_densify max_sigma 4.0
    """
    from poli.errors import PoliError
    from poli.tasks.densify import DensifyConfig

    try:
        import rclpy
    except ImportError:
        raise PoliError(
            "poli node needs rclpy, which is not to be imported here: source the setup.bash of your ROS 2, and run poli from an "
            "environment made with python -m venv --system-site-packages"
        ) from None
    config = DensifyConfig(per_point=per_point, max_sigma=max_sigma, model=model, voxel=voxel)
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
    """Subscribe, densify, publish; parameters change the configuration of the next cloud."""
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

    # A reliable publisher serves subscribers of either kind; a best-effort subscriber hears publishers of either kind.
    publisher = densifier.create_publisher(PointCloud2, target, QoSProfile(depth=5, reliability=ReliabilityPolicy.RELIABLE))

    def heard(cloud: Any) -> None:
        where = f"{source}, {cloud.header.stamp.sec}.{cloud.header.stamp.nanosec:09d}"
        try:
            if cloud.height * cloud.width:
                densify_cloud(cloud, current[0], where, lambda data: array("B", data.tobytes()))
        except PoliError as error:
            densifier.get_logger().warning(printable(f"passed on as it came: {error}"))
        publisher.publish(cloud)

    densifier.add_on_set_parameters_callback(change)
    densifier.create_subscription(PointCloud2, source, heard, QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT))
    densifier.get_logger().info(f"densifying {source} to {target}")

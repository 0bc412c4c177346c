"""ROS 2, by rclpy."""

from __future__ import annotations

import threading
from array import array as byte_array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from poli.errors import PoliError
from poli.ros.transport import Publisher, message_type


class Ros2:
    def __init__(self, name: str, arguments: Sequence[str] = ()) -> None:
        try:
            import rclpy
        except ImportError:
            raise PoliError(
                "rclpy could not be imported: source the setup.bash of your ROS 2, and run poli from an environment created with "
                "python -m venv --system-site-packages"
            ) from None
        self._ros = rclpy
        # Signals are handled by `serve`. Releases before Humble cannot turn their handlers off.
        with suppress(ImportError):
            from rclpy.signals import SignalHandlerOptions
        options = {"signal_handler_options": SignalHandlerOptions.NO} if "SignalHandlerOptions" in locals() else {}
        rclpy.init(args=["poli", *arguments], **options)
        self._node = rclpy.create_node(name)
        self._spin = threading.Thread(target=self._receive, daemon=True)

    def subscribe(self, kind: str, topic: str, heard: Callable[[Any], None]) -> None:
        from rclpy.qos import QoSProfile, ReliabilityPolicy

        # A best-effort subscriber and a reliable publisher are compatible with peers of either reliability.
        profile = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._node.create_subscription(message_type(kind), topic, heard, profile)
        if not self._spin.is_alive():
            self._spin.start()

    def publisher(self, kind: str, topic: str) -> Publisher:
        from rclpy.qos import QoSProfile, ReliabilityPolicy

        profile = QoSProfile(depth=5, reliability=ReliabilityPolicy.RELIABLE)
        publisher = self._node.create_publisher(message_type(kind), topic, profile)
        return Publisher(publisher.publish, publisher.get_subscription_count)

    def parameters(self, values: Mapping[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
        from rcl_interfaces.msg import SetParametersResult

        for name, value in values.items():
            told = self._node.declare_parameter(name, value).value  # differs if set by a launch file or with -p
            if told != value:
                change({name: told})

        def changed(parameters: list[Any]) -> Any:
            wanted = {p.name: p.value for p in parameters if p.name in values}
            try:
                change(wanted)
            except PoliError as error:
                return SetParametersResult(successful=False, reason=str(error))
            return SetParametersResult(successful=True)

        self._node.add_on_set_parameters_callback(changed)

    def time(self, stamp: int) -> Any:
        return message_type("builtin_interfaces/Time")(sec=stamp // 10**9, nanosec=stamp % 10**9)

    def now(self) -> int:
        return self._node.get_clock().now().nanoseconds

    def data(self, array: np.ndarray) -> Any:
        return byte_array("B", array.tobytes())  # rclpy checks every byte of any other type

    def ended(self) -> bool:
        return not self._ros.ok()

    def lost(self) -> str:
        return ""  # there is no master

    def say(self, text: str) -> None:
        self._node.get_logger().info(text)

    def warn(self, text: str) -> None:
        self._node.get_logger().warning(text)

    def close(self) -> None:
        self._ros.try_shutdown()
        if self._spin.is_alive():
            self._spin.join(2.0)
        self._node.destroy_node()

    def _receive(self) -> None:
        """Receive messages until ROS shuts down, which rclpy reports by exceptions that differ between releases."""
        try:
            self._ros.spin(self._node)
        except Exception:
            if self._ros.ok():
                raise

"""The few functions of ROS that the jobs need, for ROS 1 and ROS 2.

Messages of both have the same fields, except for times (`Transport.time`) and the type of byte arrays (`Transport.data`).
"""

from __future__ import annotations

import os
import sys
import threading
from abc import ABC, abstractmethod
from array import array as byte_array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from poli.errors import PoliError

Ros = Literal["auto", "1", "2"]
_DEBIAN = "/usr/lib/python3/dist-packages"  # where Debian and Ubuntu install rospy
_NO_ROS = (
    "poli node needs rclpy (ROS 2) or rospy (ROS 1), which could not be imported ({}): source the setup.bash of your ROS and run "
    "poli from an environment created with python -m venv --system-site-packages, or on Debian install python3-rospy"
)
_BUFFER = 1 << 26  # bytes; rospy keeps only the newest message of those in its buffer, so it must hold several clouds
_ASK_EVERY = 1.0  # seconds between questions to the master of ROS 1
_PATIENCE = 3  # unanswered questions in a row: the master is lost


@dataclass(frozen=True)
class Publisher:
    """A topic to publish to."""

    publish: Callable[[Any], None]
    listeners: Callable[[], int]  # how many nodes have subscribed


class Transport(ABC):
    """A node of ROS."""

    time: Callable[[int], Any]  # nanoseconds as the time of a header
    now: Callable[[], int]  # the time of ROS in nanoseconds
    data: Callable[[np.ndarray], Any]  # (B,) uint8 as the data of a message
    say: Callable[[str], None]  # log a line
    warn: Callable[[str], None]  # log a warning
    ended: Callable[[], bool]  # whether ROS has asked this node to end, or was lost
    lost = ""  # how ROS was lost

    @abstractmethod
    def subscribe(self, kind: str, topic: str, heard: Callable[[Any], None]) -> None:
        """Call `heard` for every message, from another thread. Messages that wait for it are dropped, except for the newest."""

    @abstractmethod
    def publisher(self, kind: str, topic: str) -> Publisher:
        """Announce a topic."""

    @abstractmethod
    def parameters(self, values: Mapping[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
        """Declare parameters. Call `change` with those set at the start, and with those set later; its PoliError refuses them."""

    @abstractmethod
    def close(self) -> None:
        """End the node."""


def message_type(kind: str) -> Any:
    """Import the class of a message, such as "nav_msgs/Odometry"."""
    package, _, name = kind.partition("/")
    try:
        return getattr(import_module(f"{package}.msg"), name)
    except ImportError:
        debian = package.replace("_", "-")
        names = f"ROS 1 on Debian: python3-{debian}; ROS 2: ros-DISTRIBUTION-{debian}"
        raise PoliError(f"the ROS package {package} could not be imported; install it ({names})") from None


def connect(name: str, ros: Ros = "auto", arguments: Sequence[str] = ()) -> Transport:
    """Start a node of ROS 1 or 2. `auto` follows ROS_VERSION, which ROS's setup.bash sets, or else takes what can be imported.

    `arguments` are those of ROS: remappings and parameters, as launch files pass them.
    """
    if ros == "auto":
        told = os.environ.get("ROS_VERSION")
        ros = told if told in ("1", "2") else "2" if find_spec("rclpy") else "1"  # type: ignore[assignment]
    return (Ros1 if ros == "1" else Ros2)(name, arguments)


class Ros1(Transport):
    """ROS 1, by rospy."""

    def __init__(self, name: str, arguments: Sequence[str] = ()) -> None:
        if find_spec("rospy") is None:
            sys.path.append(_DEBIAN)  # at the end: in front, its versions of other packages would replace those of the environment
        try:
            import rosgraph
            import rospy
        except ImportError as error:
            raise PoliError(_NO_ROS.format(error)) from None
        self._ros, self._master = rospy, rosgraph.Master(f"/{name}")
        uri = rosgraph.get_master_uri()
        try:
            self._pid = self._master.getPid()
        except (OSError, rosgraph.MasterException, ValueError):
            raise PoliError(f"no ROS master at {uri}: start roscore, or set ROS_MASTER_URI") from None
        self.time = lambda stamp: rospy.Time(stamp // 10**9, stamp % 10**9)
        self.now = lambda: rospy.get_rostime().to_nsec()
        self.data = np.ndarray.tobytes
        self.say, self.warn = partial(rospy.loginfo, "%s"), partial(rospy.logwarn, "%s")
        self.ended = lambda: bool(self.lost) or rospy.is_shutdown()
        # Signals are handled by `serve`. rospy would otherwise raise in the middle of a cloud.
        rospy.init_node(name, argv=["poli", *arguments], disable_signals=True)
        self._stop = threading.Event()
        self._change: Callable[[dict[str, Any]], None] = lambda _: None
        self._set: dict[str, Any] = {}
        self._names: frozenset[str] = frozenset()
        self._watch = threading.Thread(target=self._ask_master, args=(uri,), daemon=True)
        self._watch.start()

    def subscribe(self, kind: str, topic: str, heard: Callable[[Any], None]) -> None:
        self._ros.Subscriber(topic, message_type(kind), heard, queue_size=1, buff_size=_BUFFER, tcp_nodelay=True)

    def publisher(self, kind: str, topic: str) -> Publisher:
        publisher = self._ros.Publisher(topic, message_type(kind), queue_size=5, tcp_nodelay=True)

        def publish(message: Any) -> None:
            try:
                publisher.publish(message)
            except self._ros.ROSException:  # the topic was closed from outside, for instance by `rosnode kill`
                if not self._ros.is_shutdown():
                    raise

        return Publisher(publish, publisher.get_num_connections)

    def parameters(self, values: Mapping[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
        """Private parameters, such as /poli_densify/per_point. The master is asked for changes every second.

        Nothing is written to the master, which would keep it, and prefer it to the options of the next start.
        """
        self._names, self._change = frozenset(values), change
        for name, value in self._ros.get_param("~", {}).items():
            if name not in self._names:
                self.warn(f"unknown parameter ~{name}; the parameters are {', '.join(values)}")
            else:
                change({name: value})
                self._set[name] = value

    def close(self) -> None:
        self._stop.set()
        self._watch.join(2.0)
        self._ros.signal_shutdown(self.lost or "done")

    def _ask_master(self, uri: str) -> None:
        """Watch the master, which rospy does not do, and the parameters. A restarted master does not know this node any more."""
        import rosgraph

        unanswered = 0
        while not self._stop.wait(_ASK_EVERY):
            try:
                if self._master.getPid() != self._pid:
                    self.lost = f"the ROS master at {uri} was restarted and does not know this node"
                    return
                self._apply(self._ros.get_param("~", {}))
                unanswered = 0
            except (OSError, rosgraph.MasterException, self._ros.ROSException, ValueError, KeyError):
                unanswered += 1
            if unanswered >= _PATIENCE:
                self.lost = f"the ROS master at {uri} does not answer any more"
                return

    def _apply(self, found: dict[str, Any]) -> None:
        for name in self._names & found.keys():
            if found[name] != self._set.get(name):
                self._set[name] = found[name]
                try:
                    self._change({name: found[name]})
                except PoliError as error:
                    self.warn(f"parameter ~{name} stays as it is: {error}")


class Ros2(Transport):
    """ROS 2, by rclpy."""

    def __init__(self, name: str, arguments: Sequence[str] = ()) -> None:
        try:
            import rclpy
        except ImportError as error:
            raise PoliError(_NO_ROS.format(error)) from None
        self._ros = rclpy
        options = {}
        with suppress(ImportError):  # releases before Humble cannot turn their handlers off
            from rclpy.signals import SignalHandlerOptions

            options = {"signal_handler_options": SignalHandlerOptions.NO}  # signals are handled by `serve`
        rclpy.init(args=["poli", *arguments], **options)
        self._node = rclpy.create_node(name)
        self.time = lambda stamp: message_type("builtin_interfaces/Time")(sec=stamp // 10**9, nanosec=stamp % 10**9)
        self.now = lambda: self._node.get_clock().now().nanoseconds
        self.data = lambda array: byte_array("B", array.tobytes())  # rclpy checks every byte of any other type
        self.say, self.warn = self._node.get_logger().info, self._node.get_logger().warning
        self.ended = lambda: not rclpy.ok()
        self._spin = threading.Thread(target=self._receive, daemon=True)

    def subscribe(self, kind: str, topic: str, heard: Callable[[Any], None]) -> None:
        self._node.create_subscription(message_type(kind), topic, heard, self._quality(1, "BEST_EFFORT"))
        if not self._spin.is_alive():
            self._spin.start()

    def publisher(self, kind: str, topic: str) -> Publisher:
        publisher = self._node.create_publisher(message_type(kind), topic, self._quality(5, "RELIABLE"))
        return Publisher(publisher.publish, publisher.get_subscription_count)

    @staticmethod
    def _quality(depth: int, reliability: str) -> Any:
        """A best-effort subscriber and a reliable publisher are compatible with peers of either reliability."""
        from rclpy.qos import QoSProfile, ReliabilityPolicy

        return QoSProfile(depth=depth, reliability=getattr(ReliabilityPolicy, reliability))

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

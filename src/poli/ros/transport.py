"""The few functions of ROS that the jobs need, and the choice between ROS 1 and ROS 2.

Messages of both have the same fields, except for times (`Transport.time`) and the type of byte arrays (`Transport.data`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from poli.errors import PoliError

Ros = Literal["auto", "1", "2"]
_DEBIAN = Path("/usr/lib/python3/dist-packages")  # where Debian and Ubuntu install rospy


@dataclass(frozen=True)
class Publisher:
    publish: Callable[[Any], None]
    listeners: Callable[[], int]  # how many nodes have subscribed


class Transport(Protocol):
    def subscribe(self, kind: str, topic: str, heard: Callable[[Any], None]) -> None:
        """Call `heard` for every message, from another thread. Messages that wait for it are dropped, except for the newest."""

    def publisher(self, kind: str, topic: str) -> Publisher: ...

    def parameters(self, values: Mapping[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
        """Declare parameters. Call `change` with those set at the start, and with those set later; its PoliError refuses them."""

    def time(self, stamp: int) -> Any:
        """Return nanoseconds as the time of a header."""

    def now(self) -> int:
        """Return the time of ROS in nanoseconds."""

    def data(self, array: np.ndarray) -> Any:
        """Return (B,) uint8 as the data of a message."""

    def ended(self) -> bool:
        """Whether ROS has asked this node to end, or was lost."""

    def lost(self) -> str:
        """Return how ROS was lost, or an empty string."""

    def say(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def close(self) -> None: ...


def message(kind: str, **values: Any) -> Any:
    """Build a message, such as `message("nav_msgs/Odometry", child_frame_id="lidar")`."""
    return message_type(kind)(**values)


def message_type(kind: str) -> Any:
    package, _, name = kind.partition("/")
    try:
        return getattr(import_module(f"{package}.msg"), name)
    except ImportError:
        debian = f"python3-{package.replace('_', '-')}"
        raise PoliError(
            f"the ROS package {package} could not be imported; install it (ROS 1 on Debian: {debian}; ROS 2: "
            f"ros-DISTRIBUTION-{package.replace('_', '-')})"
        ) from None


def connect(name: str, ros: Ros = "auto", arguments: Sequence[str] = ()) -> Transport:
    """Start a node of ROS 1 or 2. `auto` follows ROS_VERSION, which ROS's setup.bash sets, or else takes what can be imported.

    `arguments` are those of ROS: remappings and parameters, as launch files pass them.
    """
    if (ros if ros != "auto" else _installed()) == "2":
        from poli.ros.ros2 import Ros2

        return Ros2(name, arguments)
    from poli.ros.ros1 import Ros1

    return Ros1(name, arguments)


def _installed() -> Ros:
    told = os.environ.get("ROS_VERSION")
    if told in ("1", "2"):
        return "1" if told == "1" else "2"
    if _found("rclpy"):
        return "2"
    find_rospy()
    if _found("rospy"):
        return "1"
    raise PoliError(
        "poli node needs ROS, but neither rclpy (ROS 2) nor rospy (ROS 1) could be imported: source the setup.bash of your ROS and "
        "run poli from an environment created with python -m venv --system-site-packages, or on Debian install python3-rospy"
    )


def find_rospy() -> None:
    """Make Debian's rospy importable from a virtual environment of the same Python.

    Its folder goes to the end of the path: in front, its versions of other packages would replace those of the environment.
    """
    if not _found("rospy") and (_DEBIAN / "rospy").is_dir() and str(_DEBIAN) not in sys.path:
        sys.path.append(str(_DEBIAN))


def _found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # ValueError: the module is a stand-in without a spec
        return sys.modules.get(module) is not None

"""ROS 1, by rospy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from poli.errors import PoliError
from poli.ros.transport import Publisher, find_rospy, message_type

_BUFFER = 1 << 26  # bytes; rospy keeps only the newest message of those in its buffer, so it must hold several clouds
_ASK_EVERY = 1.0  # seconds between questions to the master
_PATIENCE = 3  # unanswered questions in a row: the master is lost


class Ros1:
    def __init__(self, name: str, arguments: Sequence[str] = ()) -> None:
        find_rospy()
        try:
            import rosgraph
            import rospy
        except ImportError as error:
            raise PoliError(
                f"rospy could not be imported ({error}): on Debian install python3-rospy; otherwise source the setup.bash of your "
                "ROS 1, and run poli from an environment created with python -m venv --system-site-packages"
            ) from None
        self._ros, self._master = rospy, rosgraph.Master(f"/{name}")
        uri = rosgraph.get_master_uri()
        try:
            self._pid = self._master.getPid()
        except (OSError, rosgraph.MasterException, ValueError):
            raise PoliError(f"no ROS master at {uri}: start roscore, or set ROS_MASTER_URI") from None
        self._lost = ""
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
        for name, value in self._private().items():
            if name not in self._names:
                self.warn(f"unknown parameter ~{name}; the parameters are {', '.join(values)}")
            else:
                change({name: value})
                self._set[name] = value

    def time(self, stamp: int) -> Any:
        return self._ros.Time(stamp // 10**9, stamp % 10**9)

    def now(self) -> int:
        return self._ros.get_rostime().to_nsec()

    def data(self, array: np.ndarray) -> bytes:
        return array.tobytes()

    def ended(self) -> bool:
        return bool(self._lost) or self._ros.is_shutdown()

    def lost(self) -> str:
        return self._lost

    def say(self, text: str) -> None:
        self._ros.loginfo("%s", text)

    def warn(self, text: str) -> None:
        self._ros.logwarn("%s", text)

    def close(self) -> None:
        self._stop.set()
        self._watch.join(2.0)
        self._ros.signal_shutdown(self._lost or "done")

    def _private(self) -> dict[str, Any]:
        found = self._ros.get_param("~", {})
        return found if isinstance(found, dict) else {}

    def _ask_master(self, uri: str) -> None:
        """Watch the master, which rospy does not do, and the parameters. A restarted master does not know this node any more."""
        import rosgraph

        unanswered = 0
        while not self._stop.wait(_ASK_EVERY):
            try:
                if self._master.getPid() != self._pid:
                    self._lost = f"the ROS master at {uri} was restarted and does not know this node"
                    return
                self._apply(self._private())
                unanswered = 0
            except (OSError, rosgraph.MasterException, self._ros.ROSException, ValueError, KeyError):
                unanswered += 1
            if unanswered >= _PATIENCE:
                self._lost = f"the ROS master at {uri} does not answer any more"
                return

    def _apply(self, found: dict[str, Any]) -> None:
        for name in self._names & found.keys():
            if found[name] != self._set.get(name):
                self._set[name] = found[name]
                try:
                    self._change({name: found[name]})
                except PoliError as error:
                    self.warn(f"parameter ~{name} stays as it is: {error}")

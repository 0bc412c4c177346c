"""`poli node densify`: publish every cloud with samples of its surfaces appended."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from poli.errors import PoliError
from poli.live.clouds import name_of, sphere
from poli.live.loop import CLOUD
from poli.live.transport import Transport
from poli.scan import Scan
from poli.tasks.densify import DensifyConfig
from poli.tasks.densify.clouds import densify_cloud
from poli.tasks.densify.scans import densify_or_say

_PARAMETERS = ("max_error", "per_point", "max_sigma", "flat", "max_thickness", "model", "voxel", "planarity", "seed")

# Parameters of ROS cannot be None: -1 stands for it.
_NONE = {"per_point": -1, "max_sigma": -1.0}


class DensifyJob:
    name = "densify"

    def __init__(self, transport: Transport, source: str, target: str, config: DensifyConfig) -> None:
        self._transport, self._source, self._config = transport, source, config
        self._out = transport.publisher(CLOUD, target)

    def parameters(self) -> dict[str, Any]:
        values = asdict(self._config)
        return {name: _NONE[name] if name in _NONE and values[name] is None else values[name] for name in _PARAMETERS}

    def change(self, wanted: dict[str, Any]) -> None:
        given: dict[str, Any] = {name: None if name in _NONE and value == _NONE[name] else value for name, value in wanted.items()}
        self._config = replace(self._config, **given)

    def warm_up(self) -> None:
        densify_or_say(Scan(sphere()), replace(self._config, calibration=None))

    def process(self, cloud: Any) -> str:
        """A cloud that cannot be densified is published unchanged: those who subscribe get every cloud."""
        warning = ""
        try:
            if cloud.height * cloud.width:
                _, why = densify_cloud(cloud, self._config, name_of(self._source, cloud), self._transport.data)
                warning = f"published unchanged: {why}" if why else ""
        except PoliError as error:
            warning = f"published unchanged: {error}"
        self._out.publish(cloud)
        return warning

    def after(self) -> None:
        pass

"""Everything that is to be compiled ahead, called once on a small cloud: so numba sees the types that the library really passes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

_LIDAR = {
    "neighbours": (8, 8, 6), "edge": (8, 12, 16), "scalars": (12, 16, 20), "reach": 8, "wide": (6, 4), "frames": "sensor",
    "log_scale": True, "sensor": True, "size": 10,
}  # fmt: skip


def rehearse() -> None:
    # By name: what is rehearsed stands above this package, and must not be imported by it.
    estimation, grouping = import_module("poli.estimation"), import_module("poli.estimation.grouping")
    index = import_module("poli.estimation.neighbours").NeighbourIndex
    points = np.random.default_rng(0).standard_normal((400, 3))
    up = np.array([0.0, 0.0, 1.0])
    for settings in ({}, _LIDAR):
        for sight in (grouping.Sight(np.zeros(3), up), grouping.Sight()):
            _model(settings).covariances(points, sight)
    for field in (estimation.pca(points, k=8), estimation.pca(points, radius=0.5)):
        field.normals  # noqa: B018
    index(points).nearest(4)
    index(points).within(0.5)
    field = estimation.pca(points, k=8)
    import_module("poli.tasks.gicp").gicp(field, field)


def _model(settings: dict[str, Any]) -> Any:
    """With random weights."""
    architecture = import_module("poli.estimation.architecture").Architecture(**settings)
    rng = np.random.default_rng(0)
    weights = {}
    for name, (inputs, outputs) in architecture.linear_shapes().items():
        weights[f"{name}.weight"] = rng.standard_normal((outputs, inputs), np.float32) / np.float32(np.sqrt(inputs))
        weights[f"{name}.bias"] = np.zeros(outputs, np.float32)
    return import_module("poli.estimation.model").Model("rehearsal", architecture, 1.0, weights, {})

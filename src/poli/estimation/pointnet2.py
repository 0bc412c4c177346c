"""Hyperparameters of the paper's network, a PointNet++; `train.pointnet2` has the network, which needs torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from poli.errors import InputError

KIND = "pointnet2"
LEAST_POINTS = 16
_NORMS = ("weight", "bias", "running_mean", "running_var")  # of a batch normalization
# Far above any trained network; larger values in a file would only cost time and memory.
_MOST_LEVELS, _MOST = 8, 4096


@dataclass(frozen=True)
class PointNet2:
    """Hyperparameters, by level from the finest. The defaults are the sizes of the authors' release for scans."""

    kind: str = KIND
    centroids: tuple[int, ...] = (2048, 1024, 512, 256)  # points that each level keeps of the level below, at most
    radii: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)  # of the groups, in scaled coordinates
    nearest: tuple[int, ...] = (32, 64, 128, 256)  # points of a group: the nearest within the radius
    channels: tuple[tuple[int, ...], ...] = ((32, 32, 64), (64, 64, 128), (128, 128, 256), (256, 256, 512))  # of set abstraction
    propagated: tuple[tuple[int, ...], ...] = ((128, 128, 128), (256, 128), (256, 256), (256, 256))  # of feature propagation
    head: int = 128
    # Scans: coordinates are divided by this after `mean` is subtracted; L is in meters. 0, for objects: the mean of the points is
    # subtracted, and they are divided by the largest radius, which is then the unit of L.
    scale: float = 100.0
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    floor: float = 1e-3  # smallest diagonal entry of L, in its unit: without one the likelihood is unbounded

    # What `Architecture` may have and this network has not: context, sizes that depend on the motion, and curvature.
    log_scale: ClassVar[bool] = False
    sensor: ClassVar[bool] = False
    motion: ClassVar[bool] = False
    curvature: ClassVar[int] = 0
    least_points: ClassVar[int] = LEAST_POINTS

    def __post_init__(self) -> None:
        """Validate everything: a file of weights may contain anything."""
        for one in fields(self):
            object.__setattr__(self, one.name, _typed(one.name, getattr(self, one.name), one.default))
        levels = len(self.centroids)
        widths = [self.head, *self.centroids, *self.nearest, *(n for widths in self.channels + self.propagated for n in widths)]
        numbers = [*self.radii, self.scale, *self.mean, self.floor]
        requirements = (
            (f"kind is {self.kind[:40]!r}; expected {KIND}", self.kind == KIND),
            (
                f"centroids, radii, nearest, channels and propagated need one entry per level, {levels} each; 1 to {_MOST_LEVELS} "
                "levels",
                1 <= levels <= _MOST_LEVELS
                and all(len(of) == levels for of in (self.radii, self.nearest, self.channels, self.propagated)),
            ),
            ("channels and propagated need a width for each layer", all(self.channels + self.propagated)),
            (f"sizes must be 1 to {_MOST}", min(widths) >= 1 and max(widths) <= _MOST),
            ("radii must be positive, scale and floor at least 0", min(self.radii, default=1.0) > 0 <= min(self.scale, self.floor)),
            ("mean needs three numbers; all numbers must be finite", len(self.mean) == 3 and all(map(math.isfinite, numbers))),
        )
        for problem, met in requirements:
            if not met:
                raise InputError(f"architecture: {problem}")

    @property
    def levels(self) -> int:
        """Number of levels, without the cloud itself."""
        return len(self.centroids)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> PointNet2:
        """Build it from the table in a file of weights."""
        known = {one.name for one in fields(PointNet2)}
        if unknown := set(values) - known:
            raise InputError(f"architecture: unknown {', '.join(sorted(unknown))}; expected some of {', '.join(sorted(known))}")
        return PointNet2(**values)

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor of the network: name -> shape. The names are those of the authors' checkpoints."""
        shapes: dict[str, tuple[int, ...]] = {}

        def add(layer: str, norm: str | None, inputs: int, outputs: int) -> int:
            shapes.update({f"{layer}.weight": (outputs, inputs), f"{layer}.bias": (outputs,)})
            shapes.update({f"{norm}.{part}": (outputs,) for part in _NORMS if norm})
            return outputs

        def add_mlp(block: str, inputs: int, widths: tuple[int, ...]) -> None:
            for i, width in enumerate(widths):
                inputs = add(f"{block}.mlp_convs.{i}", f"{block}.mlp_bns.{i}", inputs, width)

        pooled = [3, *(widths[-1] for widths in self.channels)]  # features by level; those of the cloud are its coordinates
        for level, widths in enumerate(self.channels, 1):
            add_mlp(f"sa{level}", 3 + pooled[level - 1], widths)
        for level in range(self.levels, 0, -1):
            coarse = self.propagated[level][-1] if level < self.levels else pooled[level]
            add_mlp(f"fp{level}", (pooled[level - 1] if level > 1 else 0) + coarse, self.propagated[level - 1])
        add("conv1", "bn1", self.propagated[0][-1], self.head)
        add("final_conv_diag", None, self.head, 3)
        add("final_conv_triang", None, self.head, 3)
        return shapes


def _typed(name: str, value: Any, example: Any) -> Any:
    """Return a value of the type of `example`, with lists as tuples and whole numbers as floats where floats are expected."""
    if isinstance(example, tuple) and isinstance(value, list | tuple):
        return tuple(_typed(name, one, example[0]) for one in value)
    if type(example) is float and type(value) is int and abs(value) < 1e300:
        return float(value)
    if type(value) is not type(example):
        raise InputError(f"architecture: {name} is {str(value)[:100]}; expected a value like {example}")
    return value


# The sizes of the authors' release for objects.
OBJECTS = PointNet2(
    centroids=(800, 400, 200),
    radii=(0.08, 0.16, 0.32),
    nearest=(32, 32, 32),
    channels=PointNet2.channels[:3],
    propagated=PointNet2.propagated[:3],
    scale=0.0,
)

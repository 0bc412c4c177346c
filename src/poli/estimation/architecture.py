"""The network's hyperparameters, shared by training, the file of weights and the runtime."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from poli.errors import InputError
from poli.estimation.pointnet2 import PointNet2
from poli.kdtree.neighborhoods import CELL
from poli.options import real_array

CANDIDATES = 8  # neighbors of a lead on the coarse level; the points of a cell choose among these and the lead when interpolating
# Upper bound of the variance across the surface, as a fraction of those along it, whatever sizes are learned. Where points are so
# sparse that no direction is thin, the direction found is still the best estimate of the normal and must not be lost in a tie.
THINNEST = 0.9
# Of the quadrics that `train.curvature` defines, shared by training and inference:
QUADRIC_TERMS = 6  # coefficients: height, two slopes, and the second fundamental form (uu, uv, vv)
# What the network's seven outputs are factors of (through exp): noise, higher, offset, tilt, bend, tail, rest; in radii of a group.
QUADRIC_DEFAULTS = (0.05, 0.05, 0.05, 0.2, 0.5, 3.0, 0.03)
QUADRIC_EXPONENT = 6.0  # limit of these outputs
QUADRIC_REACH = 4.0  # radii: neighbors farther away within the plane say nothing about a point's curvature
# With `curvature_wide`: planes and quadrics are fitted to the group alone and to all neighbors, and the residuals are inputs.
RESIDUALS = 4
RESIDUAL_FLOOR = 0.005  # radii: smaller residuals count as none
RESIDUAL_RIDGE = 1e-3  # of the number of neighbors: what these fits add to the diagonal of their equations
RESIDUAL_CENTER = 2.5  # added to the logarithm of the residual, so that inputs are about zero
LEAST_POINTS = 16  # per cloud
# In radii of a point's group: neighbors farther away are clipped to this distance, in the same direction. Voxelized scans never
# reach it (77 at most in those examined); in raw scans one point in 10,000 has a neighbor at up to 140. Without a limit, a few
# returns a millimeter apart and meters from all others (dust, the sensor housing) produce inputs outside the training range, and
# their ellipsoids were larger than the scene.
HORIZON = 100.0
# Smallest variance along an axis, as a fraction of the largest: far below any surface (the thinnest seen on scans is 1e-5), and a
# million times the rounding error of a float64 sum of three terms.
FLATTEST = 1e-8
# Far above any trained network; larger values in a file would only cost time and memory.
MOST_LEVELS, MOST_ROUNDS, MOST, MOST_FLOOR = 8, 16, 4096, 1e6
DISTANCE_PRIOR = 1.0  # attention to wide neighbors starts with weights (1 + squared distance in radii)^-1
UP = np.array([0.0, 0.0, 1.0])
UP.flags.writeable = False


# --- The distance between two scans, as an input of the sizes.
#
# A size is the distance of a point from its partner in another scan of the place. It depends on the surface, and on how far the
# sensor moved in between: scans taken from one spot hit the same places again, and their points differ by little more than noise;
# after a move, beams hit in between. The sizes take two numbers, the same for all points of a scan, so a motion changes the bias of
# one layer (`Model.at_motion`) and costs nothing per point.


MOTION_INPUTS = 2
# Distances below the first are hidden by the noise of ranges; the second is a typical one.
_STILL, _STRIDE = 0.02, 0.5  # meters


def checked_motion(motion: Any) -> float | None:
    """Return the `motion` of `estimate`, or raise an InputError that says what to pass."""
    if motion is None:
        return None
    values = real_array(motion, "motion")
    if values.ndim:
        raise InputError(
            f"motion has shape {values.shape}; expected the distance of the scans in meters (for a relative pose T, pass "
            "numpy.linalg.norm(T[:3, 3])), or None"
        )
    if not 0.0 <= values < math.inf:
        raise InputError(f"motion is {motion!r}; expected the distance of the scans in meters, or None")
    return float(values)


def motion_inputs(distance: float | None) -> np.ndarray:  # (2,)
    """Return whether the distance (meters) is known, and its logarithm; zeros if it is not."""
    return np.zeros(MOTION_INPUTS) if distance is None else np.array([1.0, math.log((distance + _STILL) / _STRIDE)])


# The frame of a point: the principal axes of its neighbors or, for scans with a known sensor position and up direction, the
# horizontal direction away from the sensor, the horizontal direction across, and up.
Frames = Literal["neighbors", "sensor"]


@dataclass(frozen=True)
class Architecture:
    """Hyperparameters of a PointNet++-like network. Level 0 has every point; each further level keeps one point in CELL."""

    neighbors: tuple[int, ...] = (16, 16)  # group size by level, in the level below; for level 0, in the cloud itself
    edge: tuple[int, ...] = (24, 48)  # width of the shared MLP, by level
    scalars: tuple[int, ...] = (32, 64)  # features per point, by level
    interpolated: int = 3  # coarse points that each fine point interpolates
    head: int = 32
    reach: int = 36  # nearest neighbors whose moments the head weights
    wide: tuple[int, ...] = ()  # plus this many nearest points of each coarser level: a scan's nearest often lie on a single ring
    attention: int = 16  # width of the MLP that computes the weights
    heads: int = 4  # sets of weights
    rounds: int = 2  # the second round computes new weights, given the ellipsoid of the first
    frames: Frames = "neighbors"
    log_scale: bool = False  # whether the size of the groups is an input; for scans, whose noise has a size in meters
    sensor: bool = False  # whether the sensor position and the up direction are inputs
    size: int = 0  # width of the layer that predicts sizes from all features of a point; 0: from the head's hidden layer alone
    motion: bool = False  # whether the motion between two scans is an input of the sizes (`estimation.architecture`); needs `size`
    curvature: int = 0  # width of the layer that predicts what curvature needs (`train.curvature`); 0: no curvature
    # If given, curvature is fitted to the group and this many nearest points of each coarser level, whatever the head uses; the
    # residuals of plain fits are inputs, and distances are chords. Otherwise to the neighbors of the head.
    curvature_wide: tuple[int, ...] = ()
    floor: float = 0.01  # smallest diagonal entry of L, in local spacings: without one the likelihood is unbounded

    def __post_init__(self) -> None:
        """Validate everything: a file of weights may contain anything."""
        for field in fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            if kind is float and type(value) is int:
                object.__setattr__(self, field.name, value := float(value))  # kernels are compiled for floats
            if type(value) is not kind or (isinstance(value, tuple) and not all(type(n) is int for n in value)):
                expected = "a list of whole numbers" if kind is tuple else f"a value of type {kind.__name__}"
                raise InputError(f"architecture: {field.name} is {str(value)[:100]}; expected {expected}")
        levels, group = len(self.neighbors), max(self.neighbors[:2], default=0)
        sizes = [*self.neighbors, *self.edge, *self.scalars, *self.wide, *self.curvature_wide, self.interpolated, self.head]
        sizes += [self.reach, self.attention, self.heads, self.rounds]
        optional = [self.size, self.curvature]
        requirements = (
            (
                f"neighbors, edge and scalars need one number per level, {levels} each; 1 to {MOST_LEVELS} levels",
                1 <= levels <= MOST_LEVELS and len(self.edge) == len(self.scalars) == levels,
            ),
            (f"reach is {self.reach}; it must cover the {group} neighbors of a group", self.reach >= group),
            (f"interpolated is {self.interpolated}; expected at most {CANDIDATES + 1}", self.interpolated <= CANDIDATES + 1),
            (
                f"wide and curvature_wide need a number for each coarser level, at most {min(2, levels - 1)}",
                max(len(self.wide), len(self.curvature_wide)) <= min(2, levels - 1),
            ),
            ("curvature_wide is of the fit of curvature; set curvature above 0", self.curvature or not self.curvature_wide),
            (
                "frames must be `neighbors`, or `sensor` if sensor is true",
                self.frames in get_args(Frames) and (self.frames != "sensor" or self.sensor),
            ),
            ("motion is an input of the layer of sizes; set size above 0", self.size or not self.motion),
            (
                "sizes must be positive, floor above 0",
                min(sizes) > 0 and min(optional) >= 0 and 0.0 < self.floor < MOST_FLOOR,
            ),
            (
                f"sizes must be at most {MOST}, rounds and heads at most {MOST_ROUNDS}",
                max(sizes + optional) <= MOST and max(self.rounds, self.heads) <= MOST_ROUNDS,
            ),
        )
        for problem, met in requirements:
            if not met:
                raise InputError(f"architecture: {problem}")

    @property
    def levels(self) -> int:
        """Number of levels, the cloud itself included."""
        return len(self.neighbors)

    @property
    def context(self) -> int:
        """Number of inputs per point in addition to its group (`frames.describe`)."""
        return int(self.log_scale) + 8 * int(self.sensor)

    @property
    def least_points(self) -> int:
        """Smallest number of points in a cloud: sixteen, and enough that the level below the coarsest has two points."""
        return max(LEAST_POINTS, CELL ** (self.levels - 2) + 1) if self.levels > 1 else LEAST_POINTS

    @staticmethod
    def from_dict(values: Any) -> AnyArchitecture:
        """Build an architecture from the table in a file of weights or a configuration; `kind` tells which, if it has one."""
        if not isinstance(values, dict):
            raise InputError("architecture: expected a table of names and values")
        if "kind" in values:
            return PointNet2.from_dict(values)
        known = {f.name for f in fields(Architecture)}
        unknown = set(values) - known
        if unknown:
            raise InputError(f"architecture: unknown {', '.join(sorted(unknown))}; expected some of {', '.join(sorted(known))}")
        settings: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return Architecture(**settings)

    def searches(self, count: int, curvature: bool = False) -> list[tuple[int, bool]]:
        """For each level of a cloud of `count` points: how many nearest others to search, and whether their order matters.

        Curvature may need more of them. Order matters if a later stage uses only the first few."""
        searches = []
        for level in range(self.levels):
            users = [self.reach, *self.neighbors[:2]]
            if level:
                users = [CANDIDATES, *self.wide[level - 1 : level], *self.neighbors[level + 1 : level + 2]]
                users += self.curvature_wide[level - 1 : level] if curvature else ()
            k = max(users) if level else self.reach
            searches.append((min(k, -(-count // CELL**level) - 1), min(users) < k))
        return searches

    def linear_shapes(self) -> dict[str, tuple[int, int]]:
        """Every linear map of the network: name -> (inputs, outputs)."""
        shapes: dict[str, tuple[int, int]] = {}
        for level, (edge, scalars) in enumerate(zip(self.edge, self.scalars, strict=True)):
            below = self.scalars[level - 1]
            if level == 0:
                shapes["down0.place"] = (9, edge)
                if self.context:
                    shapes["down0.context"] = (self.context, edge)
                own = self.context
            else:
                shapes[f"down{level}.feature"] = (below, edge)
                shapes[f"down{level}.place"] = (3, edge)
                own = below
            shapes[f"down{level}.edge"] = (edge, edge)
            shapes[f"down{level}.node"] = (2 * edge + own, scalars)
        for level in reversed(range(self.levels - 1)):
            fine, coarse = self.scalars[level], self.scalars[level + 1]
            shapes[f"up{level}.feature"] = (coarse, fine)
            shapes[f"up{level}.place"] = (3, fine)
            shapes[f"up{level}.node"] = (2 * fine, fine)
        shapes["head.hidden"] = (self.scalars[0], self.head)
        if self.size:
            shapes["size.hidden"] = (self.scalars[0] + self.context + 3 + MOTION_INPUTS * int(self.motion), self.size)
        shapes["size.out"] = (self.size or self.head, 3)
        if self.curvature:
            known = self.scalars[0] + self.context + 3 + RESIDUALS * bool(self.curvature_wide)
            shapes["bend.hidden"] = (known, self.curvature)
            shapes["bend.out"] = (self.curvature, len(QUADRIC_DEFAULTS))
        for r in range(self.rounds):
            shapes[f"shape{r}.out"] = (self.head, 6 + self.heads)
            shapes[f"attend{r}.place"] = (1 if r else 9, self.attention)
            shapes[f"attend{r}.reader"] = (6 if r else self.scalars[0], self.attention)
            if r == 0:
                shapes["attend0.neighbor"] = (self.scalars[0], self.attention)
            shapes[f"attend{r}.out"] = (self.attention, self.heads)
        return shapes

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor of the network: name -> shape."""
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, (inputs, outputs) in self.linear_shapes().items():
            shapes |= {f"{layer}.weight": (outputs, inputs), f"{layer}.bias": (outputs,)}
        return shapes

    def multiply_adds(self) -> float:
        """Multiply-adds of the linear maps and moments, per point of the cloud."""
        total, weighted = 0.0, self.reach + sum(self.wide)
        for name, (inputs, outputs) in self.linear_shapes().items():
            part, kind = name.split(".")
            level = int(part[-1]) if part[-1].isdigit() else 0
            rows = float(CELL) ** -level if not part.startswith(("attend", "shape")) else 1.0
            if part.startswith("down"):
                rows *= self.neighbors[level] if kind in ("place", "edge") else CELL if kind == "feature" else 1
            elif part.startswith("attend"):
                rows *= weighted if kind in ("place", "out") else 1
            elif kind == "place":
                rows *= self.interpolated
            elif kind == "feature":
                rows /= CELL
            total += rows * inputs * outputs
        return total + (9.0 * self.heads * self.rounds + 9.0 * (self.rounds - 1)) * weighted  # the moments


AnyArchitecture = Architecture | PointNet2

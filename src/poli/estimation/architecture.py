"""What the network looks like: the numbers that its training, its file of weights and its runtime must agree on."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from poli.errors import InputError
from poli.kdtree.neighborhoods import CANDIDATES, CELL

# The variance across the surface is at most this share of those along it, however the sizes are learned: where points are so sparse
# that nothing is thin, the direction found is still the best guess of the normal, and must not drown in a tie.
THINNEST = 0.9
LEAST_POINTS = 16  # of a cloud
# Radii of a point's group: whoever is farther away is seen there, in the same direction. In voxelized scans nobody is (77 at most,
# in those looked at); in raw ones one point in 10,000 knows somebody at up to 140. Without a limit, a handful of returns a
# millimeter from each other and meters from all others (dust, the sensor's own housing) see numbers that no network has learned
# from, and their ellipsoids were larger than the world.
HORIZON = 100.0
# Variances along the axes, of the largest: far below any surface (the thinnest seen on scans is 1e-5), and a million times what
# float64 loses in a sum of three.
FLATTEST = 1e-8
# Far above anything that was ever trained; a file that says more would only take time and memory.
MOST_LEVELS, MOST_ROUNDS, MOST, MOST_FLOOR = 8, 16, 4096, 1e6
DISTANCE_PRIOR = 1.0  # attention to wide neighbors starts with weights (1 + squared distance in radii)^-1


# What a point's frame is: the principal axes of its neighbors, or, for scans whose sensor and upright are known, the horizontal
# direction away from the sensor, the one across it, and up.
Frames = Literal["neighbors", "sensor"]
_BRITISH = "neighbours"  # how files of weights written before 0.1 spell the name and the kind of frames


def tensor_name(stored: str) -> str:
    """The name of a tensor today; files written before 0.1, the shipped weights among them, spell neighbor with a u (_BRITISH)."""
    return stored.replace(_BRITISH[:-1], "neighbor")


@dataclass(frozen=True)
class Architecture:
    """A PointNet++-like network. Level 0 is every point; each further level keeps one point in CELL."""

    neighbors: tuple[int, ...] = (16, 16)  # of each level's groups, in the level below; of level 0, in the cloud itself
    edge: tuple[int, ...] = (24, 48)  # width of the shared MLP, by level
    scalars: tuple[int, ...] = (32, 64)  # features of a point that do not turn with the cloud, by level
    vectors: int = 4  # features of a point that turn with the cloud, at every level
    interpolated: int = 3  # coarse points that a fine one interpolates
    head: int = 32
    reach: int = 36  # nearest neighbors whose moments the head weighs
    wide: tuple[int, ...] = ()  # and as many nearest points of each coarser level: a scan's nearest are often of one ring only
    attention: int = 16  # width of the MLP that weighs them
    heads: int = 4  # sets of weights
    rounds: int = 2  # the second round weighs again, knowing the ellipsoid of the first
    frames: Frames = "neighbors"
    log_scale: bool = False  # is the network told the size of its groups? For scans, whose noise has a size in meters
    sensor: bool = False  # is it told where the sensor stands and which way is up?
    size: int = (
        0  # width of the layer that finds the sizes from all that is known of a point; 0: from the head's hidden layer alone
    )
    floor: float = 0.01  # the least diagonal entry of L, in local spacings: without one the likelihood is unbounded

    def __post_init__(self) -> None:
        self._check_kinds()
        levels = len(self.neighbors)
        if not 1 <= levels <= MOST_LEVELS or len(self.edge) != levels or len(self.scalars) != levels:
            raise InputError(
                f"architecture: neighbors, edge and scalars need one number a level, {levels} each; 1 to {MOST_LEVELS} levels"
            )
        numbers = [*self.neighbors, *self.edge, *self.scalars, *self.wide, self.interpolated]
        numbers += [self.head, self.reach, self.attention, self.heads, self.rounds]
        if self.reach < max(self.neighbors[:2]):
            raise InputError(
                f"architecture: reach is {self.reach}; it must cover the {max(self.neighbors[:2])} neighbors of a group"
            )
        if self.interpolated > CANDIDATES + 1:
            raise InputError(
                f"architecture: interpolated is {self.interpolated}; a point chooses among {CANDIDATES + 1} coarse points"
            )
        if len(self.wide) >= levels or len(self.wide) > 2 or not all(n > 0 for n in self.wide):
            raise InputError(f"architecture: wide needs a positive number for each coarser level, at most {min(2, levels - 1)}")
        if self.frames not in get_args(Frames) or (self.frames == "sensor" and not self.sensor):
            raise InputError("architecture: frames must be `neighbors`, or `sensor` if sensor is true")
        if min(numbers) < 1 or min(self.vectors, self.size) < 0 or not 0 < self.floor < MOST_FLOOR:
            raise InputError("architecture: sizes must be positive, floor above 0")
        object.__setattr__(self, "floor", float(self.floor))  # kernels are compiled for floats
        if max(*numbers, self.vectors, self.size) > MOST or max(self.rounds, self.heads) > MOST_ROUNDS:
            raise InputError(f"architecture: sizes go up to {MOST}, rounds and heads up to {MOST_ROUNDS}")

    def _check_kinds(self) -> None:
        """A file of weights may say anything."""
        lists = (self.neighbors, self.edge, self.scalars, self.wide)
        if not all(isinstance(entry, tuple) for entry in lists):
            raise InputError("architecture: neighbors, edge, scalars and wide are lists")
        numbers = [n for entry in lists for n in entry]
        numbers += [self.vectors, self.interpolated, self.head, self.reach, self.attention, self.heads, self.rounds, self.size]
        if not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
            raise InputError("architecture: sizes must be whole numbers")
        if (
            not isinstance(self.floor, int | float)
            or isinstance(self.floor, bool)
            or not all(isinstance(b, bool) for b in (self.log_scale, self.sensor))
        ):
            raise InputError("architecture: floor is a number, log_scale and sensor are true or false")

    @property
    def levels(self) -> int:
        return len(self.neighbors)

    @property
    def context(self) -> int:
        """Numbers that a point is told beside its group (`grouping.context`)."""
        return int(self.log_scale) + 8 * int(self.sensor)

    @property
    def least_points(self) -> int:
        """A cloud must have as many: sixteen, and enough that the level below the coarsest has two points."""
        return max(LEAST_POINTS, CELL ** (self.levels - 2) + 1) if self.levels > 1 else LEAST_POINTS

    @property
    def weighed(self) -> int:
        """Neighbors that the head weighs."""
        return self.reach + sum(self.wide)

    @staticmethod
    def from_dict(values: Any) -> Architecture:
        if not isinstance(values, dict):
            raise InputError("architecture: expected names and numbers")
        values = {"neighbors" if name == _BRITISH else name: value for name, value in values.items()}
        if values.get("frames") == _BRITISH:
            values["frames"] = "neighbors"
        known = {f.name for f in fields(Architecture)}
        unknown = set(values) - known
        if unknown:
            raise InputError(f"architecture: unknown {', '.join(sorted(unknown))}; known are {', '.join(sorted(known))}")
        settings: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return Architecture(**settings)

    def searches(self, count: int) -> list[tuple[int, bool]]:
        """By level, how many nearest others are searched in a cloud of so many points, and whether their order matters: it does
        where somebody takes only the first of them."""
        searches = []
        for level in range(self.levels):
            users = (
                [CANDIDATES, *self.wide[level - 1 : level], *self.neighbors[level + 1 : level + 2]]
                if level
                else [self.reach, *self.neighbors[:2]]
            )
            k = max(users) if level else self.reach
            searches.append((min(k, -(-count // CELL**level) - 1), min(users) < k))
        return searches

    def linear_shapes(self) -> dict[str, tuple[int, int]]:
        """Every linear map of the network: its name, and how many numbers go in and come out."""
        turned = 3 * self.vectors
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
                shapes[f"down{level}.place"] = (3 + turned, edge)
                own = below + turned
            shapes[f"down{level}.edge"] = (edge, edge)
            shapes[f"down{level}.node"] = (2 * edge + own, scalars + turned)
        for level in reversed(range(self.levels - 1)):
            fine, coarse = self.scalars[level], self.scalars[level + 1]
            shapes[f"up{level}.feature"] = (coarse, fine)
            shapes[f"up{level}.place"] = (3 + turned, fine)
            shapes[f"up{level}.node"] = (2 * fine + turned, fine + (turned if level else 0))
        shapes["head.hidden"] = (self.scalars[0], self.head)
        if self.size:
            shapes["size.hidden"] = (self.scalars[0] + self.context + 3, self.size)
        shapes["size.out"] = (self.size or self.head, 3)
        for r in range(self.rounds):
            shapes[f"shape{r}.out"] = (self.head, 6 + self.heads)
            shapes[f"attend{r}.place"] = (1 if r else 9, self.attention)
            shapes[f"attend{r}.reader"] = (6 if r else self.scalars[0], self.attention)
            if r == 0:
                shapes["attend0.neighbor"] = (self.scalars[0], self.attention)
            shapes[f"attend{r}.out"] = (self.attention, self.heads)
        return shapes

    def multiply_adds(self) -> float:
        """Of the linear maps, a point of the cloud."""
        total = 0.0
        for name, (inputs, outputs) in self.linear_shapes().items():
            part, kind = name.split(".")
            level = int(part[-1]) if part[-1].isdigit() else 0
            rows = float(CELL) ** -level if not part.startswith(("attend", "shape")) else 1.0
            if part.startswith("down"):
                rows *= self.neighbors[level] if kind in ("place", "edge") else CELL if kind == "feature" else 1
            elif part.startswith("attend"):
                rows *= self.weighed if kind in ("place", "out") else 1
            elif kind == "place":
                rows *= self.interpolated
            elif kind == "feature":
                rows /= CELL
            total += rows * inputs * outputs
        # Turning the vectors from the common frame into that of their reader: nine a vector.
        for level in range(1, self.levels):
            total += 9.0 * self.vectors * (self.neighbors[level] + 1) * float(CELL) ** -level
            total += 9.0 * self.vectors * self.interpolated * float(CELL) ** -(level - 1)
        return total + (9.0 * self.heads * self.rounds + 9.0 * (self.rounds - 1)) * self.weighed  # the moments

"""Common setup of outdoor places: a road with its ground, lanes and traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.data.simulate.places.cars import Vehicle
from poli.data.simulate.places.curves import headings, lengthened, line, resampled, shifted, smoothed
from poli.data.simulate.places.ground import Ground, Heights, flat
from poli.data.simulate.places.paving import Lot, Paving, Strip
from poli.data.simulate.places.site import Site
from poli.data.simulate.places.streets import drive
from poli.data.simulate.places.waves import Waves


@dataclass(frozen=True)
class Road:
    """The main road: its line, extended beyond both ends of the route, and its lanes."""

    line: np.ndarray  # (K, 2), 1 m apart, where the route runs
    half: float
    pavement: float
    lane: float  # offset of the lane's center from the line; traffic keeps to the right

    @property
    def edge(self) -> float:
        return self.half + self.pavement

    def strip(self, extra: float = 90.0) -> Strip:
        return Strip(lengthened(self.line, extra), self.half, self.pavement)


def drawn_road(rng: np.random.Generator, path: np.ndarray, parking: bool) -> Road:  # (K, 2)
    """A two-lane road, optionally with space for parked cars along it."""
    lane = rng.uniform(1.6, 2.1)
    half = lane + 1.7 + (rng.uniform(2.0, 2.4) if parking else rng.uniform(0.0, 0.5))
    return Road(resampled(smoothed(path, 3), 1.0), half, rng.uniform(1.3, 4.0), lane)


def drawn_ground(
    rng: np.random.Generator,
    parts: tuple[Strip | Lot, ...],
    hills: float = 1.0,
    beside: Heights = flat,
    gap: Heights | None = None,
    corner: tuple[float, float] = (4.0, 8.0),
) -> Ground:
    """Ground with the paved `parts`; its hills, relief, wear, curb and camber are random. `beside` and `gap`: heights off it."""
    waves = Waves(rng, hills * rng.uniform(0.3, 1.6), 110.0, 320.0)
    tilt = rng.normal(0, 0.012, 2) * hills
    return Ground(
        paving=Paving(parts, corner=rng.uniform(*corner)),
        base=lambda xy: waves(xy) + xy @ tilt,
        beside=beside,
        relief=Waves(rng, hills * rng.uniform(0.15, 0.9), 14.0, 70.0),
        wear=Waves(rng, rng.uniform(0.002, 0.008), 2.5, 15.0),
        curb=rng.uniform(0.09, 0.16),
        camber=rng.uniform(0.02, 0.09),
        roughness=rng.uniform(0.02, 0.06),
        gap=gap,
    )


def opened(rng: np.random.Generator, ground: Ground, road: Road, margin: float | None = None) -> Site:
    """Return a site whose route is the right lane of the road, with both lanes kept clear."""
    site = Site(rng, ground, resampled(shifted(road.line, -road.lane), 1.0), rng.uniform(45.0, 75.0) if margin is None else margin)
    site.keep_clear(shifted(road.line, road.lane), 1.6)
    return site


def traffic(site: Site, road: Road, cars: list[Vehicle], sides: list[np.ndarray] | None = None) -> None:
    """Add oncoming cars, one car ahead on the route, and some on side roads that stop before the main road."""
    rng = site.rng
    oncoming = shifted(lengthened(road.line, 30.0), road.lane)[::-1]
    spaced = rng.uniform(0, 60) + np.cumsum(rng.uniform(30, 110, int(rng.integers(1, 4))))
    for start in spaced[spaced < len(oncoming) - 40]:
        drive(site, cars, oncoming, rng.uniform(6, 14), float(start))
    if rng.random() < 0.6:
        drive(site, cars, site.route[:, :2], rng.uniform(7, 12), float(rng.uniform(22, 60)))
    for side in (sides or [])[:2]:
        if len(side) > 25 and len(site.movers) < 5:
            drive(site, cars, side, rng.uniform(4, 10), float(rng.uniform(0, len(side) - 20)))
    if len(site.movers) < 2:
        drive(site, cars, oncoming, rng.uniform(6, 14), float(rng.uniform(60, 160)))


def side_roads(rng: np.random.Generator, road: Road, count: int, both: float = 0.6) -> list[Strip]:
    """Roads that start at the main road; some cross it."""
    strips: list[Strip] = []
    heading = headings(road.line)
    spots = np.linspace(0.15, 0.85, count) * len(road.line) + rng.normal(0, 8, count)
    for k in spots.clip(15, len(road.line) - 15).astype(int):
        angle = heading[k] + np.pi / 2 + rng.normal(0, 0.18)
        half, pavement = rng.uniform(2.4, 4.0), rng.uniform(1.0, 2.5)
        first = rng.choice([0.0, np.pi])
        turns = [first, first + np.pi] if rng.random() < both else [first]
        strips += [Strip(line(road.line[k], angle + turn, rng.uniform(60, 130)), half, pavement) for turn in turns]
    return strips


def side_lane(strip: Strip, before: float) -> np.ndarray:  # -> (K, 2)
    """The lane towards the main road, ending `before` meters from its line."""
    return shifted(strip.line[::-1], -0.5 * strip.half)[: max(0, len(strip.line) - int(before))]

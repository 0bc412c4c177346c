"""Worlds of triangles for simulated drives, drawn by kind and seed."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import numpy as np

from poli.data.simulate.places.corridor import corridor
from poli.data.simulate.places.districts import apartments, campus
from poli.data.simulate.places.hall import hall
from poli.data.simulate.places.lots import parking
from poli.data.simulate.places.place import Label, Mover, Place
from poli.data.simulate.places.roundabout import roundabout
from poli.data.simulate.places.town import town
from poli.data.simulate.places.tunnel import tunnel
from poli.data.simulate.places.valleys import bridge, riverside
from poli.errors import InputError, did_you_mean

_MAKERS: dict[str, Callable[[np.random.Generator, str, int], Place]] = {
    "town": town,
    "campus": campus,
    "apartments": apartments,
    "roundabout": roundabout,
    "riverside": riverside,
    "bridge": bridge,
    "parking": parking,
    "tunnel": tunnel,
    "corridor": corridor,
    "hall": hall,
}
PLACES: tuple[str, ...] = tuple(_MAKERS)


def make_place(kind: str, seed: int) -> Place:
    """The same place for the same kind and seed."""
    if kind not in _MAKERS:
        raise InputError(f"unknown kind of place {kind!r}; known are {', '.join(PLACES)}{did_you_mean(kind, PLACES)}")
    return _MAKERS[kind](np.random.default_rng([crc32(kind.encode()), seed]), kind, seed)


__all__ = ["PLACES", "Label", "Mover", "Place", "make_place"]

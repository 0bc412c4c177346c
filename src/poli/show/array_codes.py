"""Arrays of numbers in the page: rounded below visible precision, as base64.

    place   uint16 steps of the panel's box, if a step is 5 mm or finer; float32 otherwise
turn    int16 quaternion (w, x, y, z) of the axes, from the thinnest to the longest; accurate to 1 / 30,000
size    float16 standard deviations along them; accurate to 0.05 %
    normal  int8, for colors only; accurate to half a degree
    color   uint8
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.ellipsoids.files import quaternions

_FINEST_STEP = 0.005  # meters: a coarser grid would be visible up close
_LARGEST_HALF = 65504.0


def encode_array(array: np.ndarray) -> str:
    """The bytes of an array as base64."""
    return b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


def turns_of(field: Ellipsoids) -> np.ndarray:  # (N, 4) int16
    """Quaternions of the axes. The first axis is the normal, facing the sensor."""
    axes = field.axes.copy()
    away = np.einsum("ni,ni->n", axes[:, :, 0], field.normals) < 0.0
    axes[away, :, :2] *= -1.0  # turning two axes around keeps it a rotation
    return np.rint(32767.0 * quaternions(axes)).astype("<i2")


def sizes_of(field: Ellipsoids) -> np.ndarray:  # (N, 3) float16
    """Standard deviations along the axes."""
    return np.minimum(field.scales, _LARGEST_HALF).astype("<f2")


def encode_places(places: np.ndarray, origin: np.ndarray) -> dict[str, Any]:
    """Encode positions: place = start + step * data, in meters from the page's origin, with an error of at most `rounding`."""
    local = places - origin
    low = local.min(axis=0)
    step = np.maximum(local.max(axis=0) - low, 1e-9) / 65535.0
    if step.max() > _FINEST_STEP:
        rounding = float(np.abs(local).max()) * 2.0**-24
        data, kind, low, step = local.astype("<f4"), "float32", np.zeros(3), np.ones(3)
    else:
        rounding = float(step.max()) / 2.0
        data, kind = np.rint((local - low) / step).astype("<u2"), "uint16"
    return {"type": kind, "start": low.tolist(), "step": step.tolist(), "rounding": rounding, "data": encode_array(data)}


def encode_normals(normals: np.ndarray) -> str:  # (N, 3); four bytes per row, aligned for the GPU
    return encode_array(_four(np.rint(127.0 * normals).astype(np.int8)))


def encode_colors(colors: np.ndarray) -> str:  # (N, 3) in 0..1
    return encode_array(_four(np.rint(255.0 * colors).astype(np.uint8)))


def _four(rows: np.ndarray) -> np.ndarray:  # (N, 3) -> (N, 4)
    return np.concatenate([rows, np.zeros((len(rows), 1), rows.dtype)], axis=1)

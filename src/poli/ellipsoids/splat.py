"""Read Gaussian-splat PLY files as ellipsoids."""

import os
from pathlib import Path

import numpy as np

from poli.ellipsoids.field import LONGEST, Ellipsoids
from poli.ellipsoids.files import SH_BAND_0, check_variances
from poli.errors import FormatError, InputError
from poli.files.ply import read_ply_element

_NEEDED = ("x", "y", "z", *(f"scale_{i}" for i in range(3)), *(f"rot_{i}" for i in range(4)))


def read_splat(path: str | os.PathLike[str]) -> tuple[Ellipsoids, np.ndarray | None]:  # colors (N, 3) in 0..1
    """Read the ellipsoids of a splat file from any program, and their view-independent colors if it has any.

    Normals point to the side given by the file. Files without normals, or with zeros as many have, leave the side undefined.
    """
    path = Path(path)
    if not path.is_file():
        raise FormatError(f"{path}: {'this is a folder' if path.is_dir() else 'no such file'}")
    records = read_ply_element(path)
    return splat_of_records(records, path)


def is_splat(records: np.ndarray) -> bool:
    return set(_NEEDED) <= set(records.dtype.names or ())


def splat_of_records(records: np.ndarray, path: Path) -> tuple[Ellipsoids, np.ndarray | None]:
    if not is_splat(records):
        missing = [name for name in _NEEDED if name not in (records.dtype.names or ())]
        raise FormatError(f"{path}: not a Gaussian-splat file: it has no property '{missing[0]}'")

    def columns(*names: str) -> np.ndarray:  # (N, len(names))
        return np.stack([records[name].astype(np.float64) for name in names], axis=1)

    means, turns = columns("x", "y", "z"), columns(*(f"rot_{i}" for i in range(4)))
    with np.errstate(over="ignore"):
        variances = np.exp(2.0 * columns(*(f"scale_{i}" for i in range(3))))
    length = np.linalg.norm(turns, axis=1)
    bad = ~((np.abs(means) <= LONGEST).all(axis=1) & (variances <= LONGEST**2).all(axis=1) & np.isfinite(length) & (length > 0.0))
    if bad.any():
        raise FormatError(f"{path}: {int(bad.sum())} splats are not valid ellipsoids, the first is row {int(bad.argmax())}")
    try:
        check_variances(variances)
    except InputError as error:
        raise FormatError(f"{path}: unreadable Gaussian-splat file: {error}") from None
    axes = _rotations(turns / length[:, None])
    covariances = (axes * variances[:, None, :]) @ np.swapaxes(axes, 1, 2)
    covariances = 0.5 * (covariances + np.swapaxes(covariances, 1, 2))
    names = records.dtype.names or ()
    viewpoint = means + columns("nx", "ny", "nz") if {"nx", "ny", "nz"} <= set(names) else None
    if viewpoint is not None and not (np.abs(viewpoint) <= LONGEST).all():
        viewpoint = None
    colors = None
    if {"f_dc_0", "f_dc_1", "f_dc_2"} <= set(names):
        colors = np.clip(np.nan_to_num(0.5 + SH_BAND_0 * columns("f_dc_0", "f_dc_1", "f_dc_2")), 0.0, 1.0)
    return Ellipsoids.trusted(means, covariances, viewpoint), colors


def _rotations(q: np.ndarray) -> np.ndarray:  # (N, 4) unit (w, x, y, z) -> (N, 3, 3)
    w, x, y, z = q.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=1) for row in rows], axis=1)

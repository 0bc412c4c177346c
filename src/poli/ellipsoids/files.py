"""Ellipsoid fields on disk: .npz as the native format, PLY for point cloud tools, Gaussian-splat PLY for splat viewers."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from poli.ellipsoids.curvature import SecondOrder
from poli.ellipsoids.field import LONGEST, Ellipsoids
from poli.errors import FormatError, InputError
from poli.io.atomic import atomic_path
from poli.io.limits import read_npz_arrays
from poli.io.ply import read_ply_element, write_ply
from poli.options import real_array

_UPPER = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
_COVARIANCE_NAMES = tuple(f"cov_{'xyz'[r]}{'xyz'[c]}" for r, c in _UPPER)
PLY_DTYPE = np.dtype([(n, "f8") for n in ("x", "y", "z", "nx", "ny", "nz", *_COVARIANCE_NAMES)])
_CURVATURE = np.dtype([(f"curvature_{part}", "f8") for part in ("1", "2", "sigma_1", "sigma_2")])
PLY_COMMENTS = ("poli ellipsoids: mean, normal, covariance",)
SH_BAND_0 = 0.28209479177387814  # the constant spherical harmonic: splat files store (color - 1/2) / this
_LARGEST = 1e290  # square meters; its inverse is the smallest
_THINNEST = 1e-6  # meters: splat files store logarithms of the scales


def save(field: Ellipsoids, path: str | os.PathLike[str]) -> None:
    if Path(path).suffix.lower() != ".npz":
        raise FormatError(f"{path}: cannot save a field in this format; use .npz")
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        bent = {_prefixed(name): a for name, a in field.second_order._asdict().items()} if field.has_curvature else {}
        np.savez(file, means=field.means, covariances=field.covariances, viewpoint=field.viewpoint, **bent)


def load(path: str | os.PathLike[str]) -> Ellipsoids:
    if not Path(path).is_file():
        raise FormatError(f"{path}: {'this is a folder' if Path(path).is_dir() else 'no such file'}")
    try:
        if Path(path).suffix.lower() == ".ply":
            return _from_records(read_ply_element(path))
        arrays = read_npz_arrays(path)
        check_variances(arrays["covariances"])
        field = Ellipsoids(arrays["means"], arrays["covariances"], arrays.get("viewpoint"))
        return field if _prefixed("curvatures") not in arrays else _curved(field, arrays)
    except (KeyError, ValueError, InputError) as error:
        raise FormatError(f"{path}: not an ellipsoid field: {error}") from None


def _prefixed(name: str) -> str:
    return f"second_order_{name}"


def _curved(field: Ellipsoids, arrays: Mapping[str, np.ndarray]) -> Ellipsoids:
    """Add the second order, whose arrays may hold NaN, but must have the right shapes."""
    shapes = {"curvatures": (2,), "directions": (2, 3), "sigmas": (2,), "heights": (), "slopes": (3,), "terms": (4,)}
    for name, shape in shapes.items():
        found = arrays[_prefixed(name)]
        if found.shape != (len(field), *shape) or found.dtype != np.float64:
            raise InputError(
                f"{_prefixed(name)} has shape {found.shape} of {found.dtype}; expected {(len(field), *shape)} of float64"
            )
    bent = SecondOrder(**{name: arrays[_prefixed(name)] for name in shapes})
    return Ellipsoids.trusted(field.means, field.covariances, field.viewpoint, bent)


def check_variances(variances: np.ndarray) -> None:
    """Reject variances from a file whose sums and quotients could overflow."""
    if variances.dtype.kind in "fiu" and variances.size:
        largest = np.abs(variances.reshape(len(variances), -1)).max(axis=1)
        odd = np.isfinite(largest) & ((largest > _LARGEST) | ((largest > 0.0) & (largest < 1.0 / _LARGEST)))
        if odd.any():
            row = int(odd.argmax())
            raise InputError(f"{int(odd.sum())} covariances are out of range, the first is row {row} (up to {largest[row]:.3g})")


def write_ply_field(field: Ellipsoids, path: str | os.PathLike[str]) -> None:
    write_ply(path, ply_records(field), comments=PLY_COMMENTS)


def ply_records(field: Ellipsoids) -> np.ndarray:  # (N,) of PLY_DTYPE, with principal curvatures if the field has them
    records = np.empty(len(field), np.dtype(PLY_DTYPE.descr + (_CURVATURE.descr if field.has_curvature else [])))
    if field.has_curvature:
        for column in range(2):
            records[f"curvature_{column + 1}"] = field.curvatures[:, column]
            records[f"curvature_sigma_{column + 1}"] = field.curvature_sigmas[:, column]
    for i, n in enumerate("xyz"):
        records[n] = field.means[:, i]
        records[f"n{n}"] = field.normals[:, i]
    for name, (r, c) in zip(_COVARIANCE_NAMES, _UPPER, strict=True):
        records[name] = field.covariances[:, r, c]
    return records


def write_splat(field: Ellipsoids, path: str | os.PathLike[str], colors: np.ndarray | None, opacity: float) -> None:
    """Write all properties of the original 3D Gaussian splatting files in their order, which some viewers require."""
    if not 0 < opacity < 1:
        raise InputError(f"opacity is {opacity}; expected a number between 0 and 1")
    normals = field.normals
    shades = 0.5 * (normals + 1.0) if colors is None else real_array(colors, "colors")
    if shades.shape != (len(field), 3):
        raise InputError(f"colors have shape {shades.shape}; expected ({len(field)}, 3)")
    if not ((shades >= 0) & (shades <= 1)).all():
        raise InputError("colors must be between 0 and 1")
    columns: dict[str, np.ndarray] = {}
    for i, n in enumerate("xyz"):
        columns[n] = field.means[:, i]
    for i, n in enumerate("xyz"):
        columns[f"n{n}"] = normals[:, i]
    for i in range(3):
        columns[f"f_dc_{i}"] = (shades[:, i] - 0.5) / SH_BAND_0
    for i in range(45):  # the higher harmonics are zero: the color does not depend on the view
        columns[f"f_rest_{i}"] = np.zeros(len(field))
    columns["opacity"] = np.full(len(field), np.log(opacity / (1 - opacity)))
    for i in range(3):
        columns[f"scale_{i}"] = np.log(np.maximum(field.scales[:, i], _THINNEST))
    for i, q in enumerate(quaternions(field.axes).T):
        columns[f"rot_{i}"] = q
    records = np.empty(len(field), [(n, "f4") for n in columns])
    for name, values in columns.items():
        records[name] = values
    write_ply(path, records)


def quaternions(rotations: np.ndarray) -> np.ndarray:  # (N, 3, 3) -> (N, 4)
    """Return unit quaternions (w, x, y, z) with w >= 0, computed from the largest of the four components to avoid cancellation."""
    m = rotations
    d0, d1, d2 = m[:, 0, 0], m[:, 1, 1], m[:, 2, 2]
    squared = 0.25 * np.stack([1 + d0 + d1 + d2, 1 + d0 - d1 - d2, 1 - d0 + d1 - d2, 1 - d0 - d1 + d2], axis=1)
    wx, wy, wz = m[:, 2, 1] - m[:, 1, 2], m[:, 0, 2] - m[:, 2, 0], m[:, 1, 0] - m[:, 0, 1]
    xy, xz, yz = m[:, 0, 1] + m[:, 1, 0], m[:, 0, 2] + m[:, 2, 0], m[:, 1, 2] + m[:, 2, 1]
    products = 0.25 * np.stack(  # row i holds q_i times (w, x, y, z)
        [
            np.stack([4 * squared[:, 0], wx, wy, wz], 1),
            np.stack([wx, 4 * squared[:, 1], xy, xz], 1),
            np.stack([wy, xy, 4 * squared[:, 2], yz], 1),
            np.stack([wz, xz, yz, 4 * squared[:, 3]], 1),
        ],
        axis=1,
    )
    largest = products[np.arange(len(m)), squared.argmax(axis=1)]
    q = largest / np.linalg.norm(largest, axis=1, keepdims=True)
    return q * np.where(q[:, :1] < 0, -1.0, 1.0)


def _from_records(records: np.ndarray) -> Ellipsoids:
    means = np.stack([records[n] for n in "xyz"], axis=-1).astype(np.float64)
    covariances = np.empty((len(records), 3, 3))
    for name, (r, c) in zip(_COVARIANCE_NAMES, _UPPER, strict=True):
        covariances[:, r, c] = covariances[:, c, r] = records[name]
    check_variances(covariances)
    normals = np.stack([records[f"n{n}"] for n in "xyz"], axis=-1)
    return Ellipsoids(means, covariances, viewpoint=means + normals)  # a viewpoint that reproduces the normals


# --- Read Gaussian-splat PLY files as ellipsoids.


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

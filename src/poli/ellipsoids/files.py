"""Ellipsoid fields on disk: .npz as the native format, PLY for point cloud tools, Gaussian-splat PLY for splat viewers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

import numpy as np

from poli.ellipsoids.curvature import SecondOrder
from poli.ellipsoids.field import Field
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
_SECOND_ORDER = {"curvatures": (2,), "directions": (2, 3), "sigmas": (2,), "heights": (), "slopes": (3,), "terms": (4,)}
_PREFIX = "second_order_"  # of their names in .npz files
_LARGEST = 1e290  # square meters; its inverse is the smallest
_THINNEST = 1e-6  # meters: splat files store logarithms of the scales
_SH_BAND_0 = 0.28209479177387814  # the constant spherical harmonic: splat files store (color - 1/2) / this


class Stored(Field):
    """The part of `Ellipsoids` about files."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write means, covariances and viewpoint as .npz; `load` restores them bit for bit."""
        if Path(path).suffix.lower() != ".npz":
            raise FormatError(f"{path}: cannot save a field in this format; use .npz")
        bent = {_PREFIX + name: a for name, a in self.second_order._asdict().items()} if self.has_curvature else {}
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez(file, means=self.means, covariances=self.covariances, viewpoint=self.viewpoint, **bent)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a field written by `save` or `write_ply`."""
        if not Path(path).is_file():
            raise FormatError(f"{path}: {'this is a folder' if Path(path).is_dir() else 'no such file'}")
        try:
            if Path(path).suffix.lower() == ".ply":
                records = read_ply_element(path)
                means, normals = (_columns(records, *names).astype(np.float64) for names in ("xyz", ("nx", "ny", "nz")))
                covariances = np.empty((len(records), 3, 3))
                for name, (r, c) in zip(_COVARIANCE_NAMES, _UPPER, strict=True):
                    covariances[:, r, c] = covariances[:, c, r] = records[name]
                _check_variances(covariances)
                return cls(means, covariances, viewpoint=means + normals)  # a viewpoint that reproduces the normals
            arrays = read_npz_arrays(path)
            _check_variances(arrays["covariances"])
            field = cls(arrays["means"], arrays["covariances"], arrays.get("viewpoint"))
            if f"{_PREFIX}curvatures" not in arrays:
                return field
            for name, shape in _SECOND_ORDER.items():  # they may hold NaN
                found, expected = arrays[_PREFIX + name], (len(field), *shape)
                if found.shape != expected or found.dtype != np.float64:
                    raise InputError(f"{_PREFIX}{name} has shape {found.shape} of {found.dtype}; expected {expected} of float64")
            bent = SecondOrder(**{name: arrays[_PREFIX + name] for name in _SECOND_ORDER})
            return cls.trusted(field.means, field.covariances, field.viewpoint, bent)
        except (KeyError, ValueError, InputError) as error:
            raise FormatError(f"{path}: not an ellipsoid field: {error}") from None

    def write_ply(self, path: str | os.PathLike[str]) -> None:
        """Write a PLY point cloud with normals, the six entries of each covariance, and principal curvatures if the field has them.

        `load` reads means, normals and covariances back; .npz (`save`) keeps everything."""
        write_ply(path, ply_records(self), comments=PLY_COMMENTS)

    def write_splat(self, path: str | os.PathLike[str], colors: np.ndarray | None = None, opacity: float = 0.8) -> None:
        """Write a Gaussian-splat PLY for splat viewers. `colors` (N, 3) in 0..1; by default they show the normals."""
        if not 0 < opacity < 1:
            raise InputError(f"opacity is {opacity}; expected a number between 0 and 1")
        nothing = np.zeros((len(self), 45))  # the higher harmonics: the color does not depend on the view
        groups = {  # all properties of the original 3D Gaussian splatting files, in their order, which some viewers require
            ("x", "y", "z"): self.means,
            ("nx", "ny", "nz"): self.normals,
            tuple(f"f_dc_{i}" for i in range(3)): (checked_colors(colors, self.normals) - 0.5) / _SH_BAND_0,
            tuple(f"f_rest_{i}" for i in range(45)): nothing,
            ("opacity",): np.full((len(self), 1), np.log(opacity / (1 - opacity))),
            tuple(f"scale_{i}" for i in range(3)): np.log(np.maximum(self.scales, _THINNEST)),
            tuple(f"rot_{i}" for i in range(4)): quaternions(self.axes),
        }
        records = np.empty(len(self), [(name, "f4") for names in groups for name in names])
        for names, values in groups.items():
            for name, column in zip(names, values.T, strict=True):
                records[name] = column
        write_ply(path, records)


def ply_records(field: Field) -> np.ndarray:  # (N,) of PLY_DTYPE, with principal curvatures if the field has them
    """Return a field as the records of a PLY file."""
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


def checked_colors(colors: np.ndarray | None, normals: np.ndarray) -> np.ndarray:  # (N, 3), (N, 3) -> (N, 3)
    """Return the colors, all between 0 and 1, or those that show the normals."""
    shades = 0.5 * (normals + 1.0) if colors is None else real_array(colors, "colors")
    if shades.shape != normals.shape or not ((shades >= 0) & (shades <= 1)).all():
        raise InputError(f"colors have shape {shades.shape}; expected {normals.shape}, all between 0 and 1")
    return shades


def quaternions(rotations: np.ndarray) -> np.ndarray:  # (N, 3, 3) -> (N, 4)
    """Return unit quaternions (w, x, y, z) with w >= 0, computed from the largest of the four components to avoid cancellation."""
    m = rotations
    d0, d1, d2 = m[:, 0, 0], m[:, 1, 1], m[:, 2, 2]
    squared = 0.25 * np.stack([1 + d0 + d1 + d2, 1 + d0 - d1 - d2, 1 - d0 + d1 - d2, 1 - d0 - d1 + d2], axis=1)
    wx, wy, wz = m[:, 2, 1] - m[:, 1, 2], m[:, 0, 2] - m[:, 2, 0], m[:, 1, 0] - m[:, 0, 1]
    xy, xz, yz = m[:, 0, 1] + m[:, 1, 0], m[:, 0, 2] + m[:, 2, 0], m[:, 1, 2] + m[:, 2, 1]
    w, x, y, z = 4.0 * squared.T
    products = 0.25 * np.array([[w, wx, wy, wz], [wx, x, xy, xz], [wy, xy, y, yz], [wz, xz, yz, z]])  # row i: q_i (w, x, y, z)
    largest = products[squared.argmax(axis=1), :, np.arange(len(m))]
    q = largest / np.linalg.norm(largest, axis=1, keepdims=True)
    return q * np.where(q[:, :1] < 0, -1.0, 1.0)


def _check_variances(variances: np.ndarray) -> None:
    """Reject variances from a file whose sums and quotients could overflow."""
    if variances.dtype.kind in "fiu" and variances.size:
        largest = np.abs(variances.reshape(len(variances), -1)).max(axis=1)
        odd = np.isfinite(largest) & ((largest > _LARGEST) | ((largest > 0.0) & (largest < 1.0 / _LARGEST)))
        if odd.any():
            row = int(odd.argmax())
            raise InputError(f"{int(odd.sum())} covariances are out of range, the first is row {row} (up to {largest[row]:.3g})")


def _columns(records: np.ndarray, *names: str) -> np.ndarray:  # (N, len(names)) float64
    return np.stack([records[name].astype(np.float64) for name in names], axis=1)

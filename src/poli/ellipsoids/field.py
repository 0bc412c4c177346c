"""Means, covariances and viewpoint of a field: validation, axes and normals, moving and changing."""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np

from poli.ellipsoids.curvature import Curved, SecondOrder
from poli.ellipsoids.symmetric3 import eigh3
from poli.errors import InputError
from poli.options import real_array, real_number
from poli.se3 import check_pose

# Relative to the largest entry: asymmetry or negative eigenvalues up to this are treated as rounding. float32 rounds to 1e-7, a
# thousand times less; matrices that are not covariances are off by a tenth or more. Negative eigenvalues within it count as flat.
_TOLERANCE = 1e-4
# Limit of coordinates and standard deviations, in any unit: beyond it, squares and sums of a few squares would overflow.
LONGEST = 1e150
# Relative to the largest eigenvalue: two eigenvalues that differ by less are treated as equal, and the axes between them as
# arbitrary. Jacobi rotations separate eigenvalues to 1e-16; axes with a gap of 1e-9 are accurate to 1e-7.
_SAME = 1e-9


class Field(Curved):
    """The arrays of `Ellipsoids`, and their geometry."""

    def __init__(
        self,
        means: np.ndarray,  # (N, 3)
        covariances: np.ndarray,  # (N, 3, 3)
        viewpoint: np.ndarray | None = None,  # (3,) or (N, 3); the origin if not given
    ) -> None:
        means, covariances = real_array(means, "means").copy(), real_array(covariances, "covariances")
        if means.ndim != 2 or means.shape[1] != 3:
            raise InputError(f"means have shape {means.shape}; expected (N, 3)")
        if covariances.shape != (len(means), 3, 3):
            raise InputError(f"covariances have shape {covariances.shape}; expected ({len(means)}, 3, 3), one per mean")
        for name, array in (("means", means), ("covariances", covariances)):
            bad = ~np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
            if bad.any():
                raise InputError(f"{name}: {int(bad.sum())} rows are not finite, the first is row {int(bad.argmax())}")
        check_length(means, "means")
        if np.abs(covariances).max(initial=0.0) > LONGEST**2:
            raise InputError(f"covariances: entries reach {np.abs(covariances).max():.3g}; expected at most {LONGEST**2:g}")
        size = np.abs(covariances).max(axis=(1, 2), initial=0.0)
        skew = np.abs(covariances - np.swapaxes(covariances, 1, 2)).max(axis=(1, 2), initial=0.0) > _TOLERANCE * size
        if skew.any():
            raise InputError(f"covariances: {int(skew.sum())} are not symmetric, the first is row {int(skew.argmax())}")
        self._adopt(means, 0.5 * (covariances + np.swapaxes(covariances, 1, 2)), viewpoint)
        negative = self.eigenvalues[:, 0] < -_TOLERANCE * size
        if negative.any():
            row = int(negative.argmax())
            raise InputError(
                f"covariances: {int(negative.sum())} are not positive semidefinite, the first is row {row} "
                f"(smallest eigenvalue {self.eigenvalues[row, 0]:.3g})"
            )

    @classmethod
    def trusted(
        cls,
        means: np.ndarray,
        covariances: np.ndarray,
        viewpoint: np.ndarray | None = None,
        second_order: SecondOrder | None = None,
    ) -> Self:
        """Build a field without validation, for estimators whose covariances are valid by construction. Validation takes time."""
        field = cls.__new__(cls)
        field._adopt(means, covariances, viewpoint, second_order)
        return field

    def _adopt(
        self,
        means: np.ndarray,
        covariances: np.ndarray,
        viewpoint: np.ndarray | None,
        second_order: SecondOrder | None = None,
    ) -> None:
        view = np.zeros(3) if viewpoint is None else real_array(viewpoint, "viewpoint").copy()
        if view.shape not in ((3,), (len(means), 3)) or not np.isfinite(view).all():
            raise InputError(f"viewpoint has shape {view.shape}; expected finite numbers of shape (3,) or ({len(means)}, 3)")
        check_length(view, "viewpoint")
        self.means, self.covariances, self.viewpoint = (_read_only(a) for a in (means, covariances, view))
        self._second_order = None if second_order is None else SecondOrder(*(_read_only(a) for a in second_order))

    def __len__(self) -> int:
        return len(self.means)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)})"

    # --- shape -------------------------------------------------------------------------------------------------------

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = eigh3(self.covariances)
        return _read_only(values), _read_only(vectors)

    @property
    def eigenvalues(self) -> np.ndarray:  # (N, 3)
        """Variances along the axes, ascending."""
        return self._eigen[0]

    @property
    def axes(self) -> np.ndarray:  # (N, 3, 3)
        """Unit axes as columns, from the thinnest to the longest; a rotation, never a reflection."""
        return self._eigen[1]

    @property
    def scales(self) -> np.ndarray:  # (N, 3)
        """Standard deviations along the axes, ascending."""
        return np.sqrt(np.maximum(self.eigenvalues, 0.0))

    @property
    def normals(self) -> np.ndarray:  # (N, 3)
        """Unit normals (the thinnest axis), pointing towards the viewpoint."""
        return self.oriented_normals(self.viewpoint)

    @property
    def quadric_normals(self) -> np.ndarray:  # (N, 3)
        """Unit normals of the quadrics, towards the viewpoint. On smooth or noisy objects they are closer to the truth than
        `normals`, on objects with many edges a little farther from it (docs/concepts/curvature.md)."""
        tilted = self.normals - self.second_order.slopes
        return tilted / np.linalg.norm(tilted, axis=1, keepdims=True)

    def oriented_normals(self, point: np.ndarray, away: bool = False) -> np.ndarray:  # (3,) or (N, 3) -> (N, 3)
        """Unit normals pointing towards a point, or away from it.

        If the thinnest axis is not unique (a line, a ball), the one that faces the point most directly is chosen, so the result
        does not depend on the arbitrary choice of eigenvectors.
        """
        point = real_array(point, "point")
        if point.shape not in ((3,), (len(self), 3)):
            raise InputError(f"point has shape {point.shape}; expected (3,) or ({len(self)}, 3)")
        check_length(point, "point")
        away_from_mean = point - self.means
        distance = np.linalg.norm(away_from_mean, axis=1, keepdims=True)
        facing = np.divide(away_from_mean, distance, out=np.tile([0.0, 0.0, 1.0], (len(self), 1)), where=distance > 0)
        thin = self.axes[:, :, 0]
        cosine = np.einsum("ij,ij->i", thin, facing)
        normals = thin * np.where(cosine < 0, -1.0, 1.0)[:, None]
        lo, mid, hi = self.eigenvalues.T
        for ambiguous, spanned in ((mid - lo <= _SAME * hi, 2), (hi - lo <= _SAME * hi, 3)):
            if ambiguous.any():
                basis = self.axes[ambiguous][:, :, :spanned]
                projected = np.einsum("nij,nj->ni", basis @ np.swapaxes(basis, 1, 2), facing[ambiguous])
                length = np.linalg.norm(projected, axis=1, keepdims=True)
                normals[ambiguous] = np.where(length > _SAME, projected / np.maximum(length, _SAME), normals[ambiguous])
        return -normals if away else normals

    @property
    def linearity(self) -> np.ndarray:  # (N,)
        """(l1 - l2) / l1 of the variances l1 >= l2 >= l3: 1 on a line. Linearity, planarity and sphericity sum to 1."""
        _, mid, hi = self.eigenvalues.T
        return _share(hi - mid, hi)

    @property
    def planarity(self) -> np.ndarray:  # (N,)
        """(l2 - l3) / l1: 1 on a plane."""
        lo, mid, hi = self.eigenvalues.T
        return _share(mid - lo, hi)

    @property
    def sphericity(self) -> np.ndarray:  # (N,)
        """l3 / l1: 1 in a ball, and where the shape is unknown."""
        return 1.0 - self.linearity - self.planarity

    # --- moving and changing -----------------------------------------------------------------------------------------

    def transform(self, T_target_source: np.ndarray) -> Self:  # (4, 4)
        """Transform the field to another frame (Proposition 1)."""
        T = check_pose(T_target_source, "T_target_source")
        R, t = T[:3, :3], T[:3, 3]
        bent = None if self._second_order is None else self._second_order.rotated(R)
        return self.trusted(self.means @ R.T + t, R @ self.covariances @ R.T, self.viewpoint @ R.T + t, bent)

    def select(self, rows: np.ndarray) -> Self:
        """Select ellipsoids by a mask or an index array."""
        view = self.viewpoint if self.viewpoint.ndim == 1 else self.viewpoint[rows]
        bent = None if self._second_order is None else self._second_order.select(rows)
        return self.trusted(self.means[rows], self.covariances[rows], view, bent)

    def with_floor(self, sigma: float) -> Self:
        """Thicken by `sigma` in every direction: C + sigma^2 I."""
        sigma = real_number(sigma, "sigma", "a length of at least 0")
        check_length(np.array(sigma), "sigma")
        return self.trusted(self.means, self.covariances + sigma**2 * np.eye(3), self.viewpoint, self._second_order)

    def as_planes(self, thickness: float = 1e-3) -> Self:
        """GICP's regularization: replace the variances along the axes by (thickness, 1, 1)."""
        thickness = real_number(thickness, "thickness", "a variance of at least 0")
        thin = self.axes[:, :, 0]
        planes = np.eye(3) - (1.0 - thickness) * thin[:, :, None] * thin[:, None, :]
        return self.trusted(self.means, planes, self.viewpoint, self._second_order)


def check_length(values: np.ndarray, name: str) -> None:
    """Raise if a value is not finite or its square could overflow."""
    most = float(np.abs(values).max(initial=0.0))
    if not most <= LONGEST:
        raise InputError(f"{name}: magnitudes reach {most:.3g}; expected finite numbers of at most {LONGEST:g}")


def _read_only(array: np.ndarray) -> np.ndarray:
    view = np.ascontiguousarray(array, dtype=np.float64).view()
    view.flags.writeable = False
    return view


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)

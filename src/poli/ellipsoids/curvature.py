"""The second order of a surface: at every point of a field the principal curvatures, and how far a quadric can be trusted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poli.errors import InputError
from poli.options import real_array


class SecondOrder(NamedTuple):
    """Quadrics at N points, over the tangent planes of the ellipsoids; heights are positive towards the viewpoint.

    Where the neighbors say nothing about the curvature, curvatures and directions are NaN, and standard deviations infinite."""

    curvatures: np.ndarray  # (N, 2) in 1/m, the larger one first; positive where the surface bends towards the viewpoint
    directions: np.ndarray  # (N, 2, 3) unit, in the tangent plane
    sigmas: np.ndarray  # (N, 2) standard deviations of the curvatures
    heights: np.ndarray  # (N,) of the surface over the point, in meters
    slopes: np.ndarray  # (N, 3) of the surface at the point, the gradient of its height: a vector in the tangent plane
    # (N, 4): variances of the height (m^2), of the slope, and of the curvature (1/m^2) at the point, and the scale in 1/m^2 of what
    # a quadric leaves out, which grows with the cube of the distance.
    terms: np.ndarray

    @staticmethod
    def of_fit(fit: np.ndarray, means: np.ndarray, viewpoint: np.ndarray) -> SecondOrder:  # (N, 18), (N, 3), (3,) or (N, 3)
        """Orient the result of `estimation.runtime.curvature` towards the viewpoint."""
        normals, curvatures, first = fit[:, :3], fit[:, 3:5], fit[:, 5:8]
        directions = np.stack([first, np.cross(normals, first)], axis=1)
        away = np.einsum("ni,ni->n", normals, viewpoint - means) < 0.0
        # From the other side, all heights change their sign, and the larger curvature is the smaller one.
        curvatures = np.where(away[:, None], -curvatures[:, ::-1], curvatures)
        sigmas = np.where(away[:, None], fit[:, 9:7:-1], fit[:, 8:10])
        directions = np.where(away[:, None, None], directions[:, ::-1], directions)
        sign = np.where(away, -1.0, 1.0)
        return SecondOrder(curvatures, directions, sigmas, sign * fit[:, 10], sign[:, None] * fit[:, 15:18], fit[:, 11:15].copy())

    def select(self, rows: np.ndarray) -> SecondOrder:
        """Select quadrics by a mask or an index array."""
        return SecondOrder(*(values[rows] for values in self))

    def rotated(self, R: np.ndarray) -> SecondOrder:  # (3, 3)
        """Return the quadrics in a rotated frame."""
        return self._replace(directions=self.directions @ R.T, slopes=self.slopes @ R.T)

    def error_at(self, distances: np.ndarray) -> np.ndarray:  # (N, ...) -> (N, ...)
        """Return the standard deviation of the true height about the quadric, at distances within the tangent planes."""
        height, slope, curvature, higher = (t.reshape(-1, *[1] * (np.ndim(distances) - 1)) for t in self.terms.T)
        r2 = np.square(distances)
        return np.sqrt(height + slope * r2 + 0.25 * curvature * r2**2 + higher**2 * r2**3)


# --- What a field of ellipsoids says about curvature, if it was estimated.


class Curved:
    """The part of `Ellipsoids` about curvature (docs/concepts/curvature.md)."""

    _second_order: SecondOrder | None

    @property
    def has_curvature(self) -> bool:
        """Whether curvature was estimated, too: `estimate(..., curvature=True)`."""
        return self._second_order is not None

    @property
    def second_order(self) -> SecondOrder:
        """The quadrics that the properties below are read from."""
        if self._second_order is None:
            raise InputError("the field has no curvature; estimate it with curvature=True")
        return self._second_order

    @property
    def curvatures(self) -> np.ndarray:  # (N, 2)
        """Principal curvatures in 1/m, the larger first, positive where the surface bends towards the viewpoint; NaN if unknown."""
        return self.second_order.curvatures

    @property
    def curvature_directions(self) -> np.ndarray:  # (N, 2, 3)
        """Unit vectors along which the surface has the principal curvatures."""
        return self.second_order.directions

    @property
    def curvature_sigmas(self) -> np.ndarray:  # (N, 2)
        """Standard deviations of the principal curvatures; infinite if unknown."""
        return self.second_order.sigmas

    @property
    def mean_curvature(self) -> np.ndarray:  # (N,)
        """The mean of the principal curvatures: 0 on planes and minimal surfaces, -1 / radius on a sphere seen from outside."""
        return self.curvatures.mean(axis=1)

    @property
    def gaussian_curvature(self) -> np.ndarray:  # (N,)
        """The product of the principal curvatures: positive on bumps and in hollows, negative on saddles, 0 on cylinders."""
        return self.curvatures.prod(axis=1)

    @property
    def shape_index(self) -> np.ndarray:  # (N,)
        """2/pi arctan((k1 + k2) / (k1 - k2)), Koenderink's index: -1 on a bump, -1/2 on a ridge, 0 on a saddle, 1/2 in a rut, 1 in
        a hollow, as seen from the viewpoint. Noise decides on planes, where both curvatures are small; NaN if they are unknown."""
        first, second = self.curvatures.T
        return 2.0 / np.pi * np.arctan2(first + second, first - second)

    def surface_error(self, distance: np.ndarray | float) -> np.ndarray:  # (N,) or () -> (N,)
        """Standard deviation, along the normal, of the surface about a point's quadric, `distance` meters from the point."""
        return self.second_order.error_at(np.broadcast_to(real_array(distance, "distance"), len(self.second_order.heights)))

"""What a field of ellipsoids says about curvature, if its model estimates it."""

from __future__ import annotations

import numpy as np

from poli.ellipsoids.second_order import SecondOrder
from poli.errors import InputError
from poli.validation import real_array


class Curved:
    """The part of `Ellipsoids` about curvature (docs/concepts/curvature.md)."""

    _second_order: SecondOrder | None

    @property
    def has_curvature(self) -> bool:
        """Whether the model that estimated the field also estimates curvature."""
        return self._second_order is not None

    @property
    def second_order(self) -> SecondOrder:
        """The quadrics that the properties below are read from."""
        if self._second_order is None:
            raise InputError(
                "the field has no curvature; estimate it with a model that has it (lidar, objects), with `curvature=True`"
            )
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

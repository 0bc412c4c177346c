"""Validate numeric arguments."""

from typing import Any

import numpy as np

from poli.errors import InputError


def real_array(value: Any, name: str) -> np.ndarray:
    """Return `value` as a float64 array. Raise InputError for text, ragged lists and complex numbers."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"type {array.dtype}")
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: expected an array of real numbers ({str(error)[:100]})") from None


def whole_number(value: Any, name: str, least: int) -> int:
    """Return `value` as an int that is at least `least`."""
    try:
        number = int(value)
        if number != value or number < least:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{{argument}} is {value!r}; expected a whole number of at least {least}", argument=name, remedy=""
        ) from None
    return number


def real_number(value: Any, name: str, meaning: str, least: float = 0.0, above: bool = False) -> float:
    """Return `value` as a finite float that is at least `least`, or greater if `above`."""
    try:
        number = float(value)
        if not np.isfinite(number) or number < least or (above and number == least):
            raise ValueError
    except (TypeError, ValueError):
        raise InputError(f"{{argument}} is {value!r}; expected {meaning}", argument=name, remedy="") from None
    return number

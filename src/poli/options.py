"""Decorator for functions whose keyword arguments are the fields of a configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from poli.errors import InputError, did_you_mean

P = ParamSpec("P")
R = TypeVar("R")


def takes_config(kind: type[Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function that takes `config` and, as keywords, the fields of `kind` with the same defaults.

    The signature lists the keywords for editors and `help`, but the function reads only `config`. The decorator fills it in: the
    given config, or else `kind()`, updated with the given keywords.
    """
    names = [field.name for field in fields(kind)]

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def run(*args: P.args, **keywords: P.kwargs) -> R:
            for name in keywords:
                if name not in signature.parameters:
                    hint = did_you_mean(name, names)
                    raise InputError(f"{function.__name__} has no option {name!r}; it has {', '.join(names)}{hint}")
            given = {name: value for name, value in keywords.items() if name in names}
            bound = signature.bind(*args, **{name: value for name, value in keywords.items() if name not in names})
            config = bound.arguments.get("config")
            if config is not None and not isinstance(config, kind):
                raise InputError(f"config is a {type(config).__name__}; expected a {kind.__name__}")
            bound.arguments["config"] = replace(kind() if config is None else config, **given)
            return function(*bound.args, **bound.kwargs)

        return run

    return decorate


# --- Validate numeric arguments.


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

"""Decorator for functions whose keyword arguments are the fields of a configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

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

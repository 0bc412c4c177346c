"""Options: fields of dataclasses with help, unit and limits. Checks, signatures and the command line are made from them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin

import numpy as np

from poli.errors import InputError, did_you_mean

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """One option: a field of a dataclass, and what was said about it with `option`."""

    help: str
    unit: str = ""  # in the plural, such as meters; names the value on the command line
    least: float | None = None
    above: float | None = None
    most: float | None = None
    names: Callable[[], Sequence[str]] | None = None  # known values, offered by Tab
    ending: str = ""  # besides `names`, a file with this ending is allowed, and nothing else
    flag: str = ""  # name on the command line, if it differs
    argument: bool = False  # given by position on the command line
    read: Callable[[Any], Any] | None = None  # makes the value from what the command line gives
    name: str = ""
    kind: Any = str  # the type, without None
    optional: bool = False  # whether None is allowed
    several: bool = False  # a tuple of such values
    default: Any = None  # MISSING: required

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed values, if they are listed in the type."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    def allows(self, value: Any) -> bool:
        """Whether a value has the right type and is within the limits."""
        if value is None:
            return self.optional
        if self.choices:
            return isinstance(value, str) and value in self.choices
        if self.ending:
            return isinstance(value, str | Path) and (Path(value).suffix == self.ending or value in (self.names or tuple)())
        if self.kind not in (int, float):
            return not isinstance(self.kind, type) or isinstance(value, self.kind)
        try:
            number = self.kind(value)
            whole = number == value or self.kind is float
        except (TypeError, ValueError, OverflowError):
            return False
        low = (self.least is None or number >= self.least) and (self.above is None or number > self.above)
        return bool(whole and np.isfinite(number) and low and (self.most is None or number <= self.most))

    @property
    def expected(self) -> str:
        """What the value must be, in words."""
        if self.choices:
            what = f"one of {', '.join(self.choices)}"
        elif self.ending:
            what = f"one of {', '.join((self.names or tuple)())}, or the path of a {self.ending} file"
        elif self.kind in (int, float):
            limits = ((" of at least", self.least), (" above", self.above), (" of at most", self.most))
            bounds = " and".join(f"{word} {limit:g}" for word, limit in limits if limit is not None)
            what = f"a {'whole ' if self.kind is int else ''}number{f' of {self.unit}' if self.unit else ''}{bounds}"
        else:
            what = "True or False" if self.kind is bool else f"a {self.kind.__name__}"
        return f"{what}, or None" if self.optional else what


def option(default: Any, help: str, **more: Any) -> Any:
    """A dataclass field that is an option. `more` are fields of `Option`: unit, least, above, most, names, flag, ..."""
    return field(default=default, metadata={"option": Option(help, **more)})


@cache
def options_of(kind: Any) -> tuple[Option, ...]:
    """The options of a dataclass. Its other fields have no help, and are not on the command line."""
    return tuple(_complete(kind, one) for one in fields(kind) if "option" in one.metadata)


def _complete(owner: type, one: Field) -> Option:
    hint = eval(one.type, vars(sys.modules[owner.__module__])) if isinstance(one.type, str) else one.type
    parts = [part for part in get_args(hint) if part not in (NoneType, Ellipsis)] if get_origin(hint) is not Literal else []
    kind, optional, several = parts[0] if parts else hint, NoneType in get_args(hint), get_origin(hint) is tuple
    return replace(one.metadata["option"], name=one.name, kind=kind, optional=optional, several=several, default=one.default)


def check(config: Any) -> None:
    """Raise InputError unless all options of a dataclass are of their type and within their limits."""
    kind: Any = type(config)
    for one in options_of(kind):
        value = getattr(config, one.name)
        if not one.several and not one.allows(value):
            known = one.choices or (one.names() if one.names else ())
            raise InputError(f"{one.name} is {value!r}; expected {one.expected}{did_you_mean(value, known)}")


def configured(kind: type[C], config: C | None, changes: dict[str, Any]) -> C:
    """Return a configuration, by default that of `kind`, with some fields changed."""
    names = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    for name in changes:
        if name not in names:
            raise InputError(f"there is no option {name!r}; the options are {', '.join(names)}{did_you_mean(name, names)}")
    if config is not None and not isinstance(config, kind):
        raise InputError(f"config is a {type(config).__name__}; expected a {kind.__name__}")
    return replace(kind() if config is None else config, **changes)  # type: ignore[type-var]


def lists_options(kind: type) -> Callable[[F], F]:
    """Decorate a function that takes `**options`: list the fields of `kind` in its signature and its docstring."""

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        kept = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        added = [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=_default(one), annotation=one.type)
            for one in fields(kind)
        ]
        function.__signature__ = own.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
        lines = [f"        {one.name}: {one.help}{f' [{one.unit}]' if one.unit else ''}" for one in options_of(kind)]
        function.__doc__ = "\n".join([(function.__doc__ or "").rstrip(), *lines, "    "])
        return function

    return decorate


def _default(one: Field) -> Any:
    return one.default_factory() if one.default is MISSING and one.default_factory is not MISSING else one.default


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
    if not (one := Option("", least=least, kind=int)).allows(value):
        raise InputError(f"{name} is {value!r}; expected {one.expected}")
    return int(value)


def real_number(value: Any, name: str, meaning: str, least: float = 0.0, above: bool = False) -> float:
    """Return `value` as a finite float that is at least `least`, or greater if `above`."""
    limits = Option("", kind=float, above=least if above else None, least=None if above else least)
    if not limits.allows(value):
        raise InputError(f"{name} is {value!r}; expected {meaning}")
    return float(value)

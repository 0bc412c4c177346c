"""The options of an experiment: a dataclass whose fields carry their help, and the command line made from it."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from dataclasses import MISSING, field, fields
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any, NoReturn, get_args, get_type_hints

from poli.errors import InputError

REAL = "folder of real sequences in the layout of KITTI odometry; without it, simulated scans only"
DRIVES = "folder where simulated drives are kept; missing ones are recorded"
RUNS = "folder where outcomes are kept; an interrupted benchmark resumes from there"
PROCESSES = "number of processes; 0: one per core"
MODEL = "name of a shipped model, or path of a .safetensors file"


def option(default: Any, text: str, *, least: int | None = None, argument: bool = False) -> Any:
    """A dataclass field with a help text. `least`: the smallest value allowed. `argument`: a positional argument."""
    return field(default=default, metadata={"help": text, "least": least, "argument": argument})


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; `{self.prog} --help` lists the options")


def parse(experiment: ModuleType, prog: str, words: Sequence[str]) -> tuple[Any, Path, Path | None]:
    """Parse the command line of an experiment. Returns its `Options`, the output folder, and the file for a copy of the JSON."""
    parser = _Parser(prog=prog, description=experiment.__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for tables and plots (default: results)")
    parser.add_argument("--json", type=Path, help="also write the results to this file", metavar="FILE")
    kinds = get_type_hints(experiment.Options)
    for one in fields(experiment.Options):
        if one.metadata:
            _add(parser, one.name, kinds[one.name], one.default, **one.metadata)
    found = vars(parser.parse_args(words))
    out, json_path = found.pop("out"), found.pop("json")
    return experiment.Options(**found), out, json_path


def _add(parser: ArgumentParser, name: str, kind: Any, default: Any, help: str, least: int | None, argument: bool) -> None:
    parts = [part for part in get_args(kind) if part not in (NoneType, Ellipsis)]
    several = getattr(kind, "__origin__", None) is tuple
    one = parts[0] if parts else kind
    shown = "" if default in (None, (), "", MISSING) else f"(default: {','.join(map(str, default)) if several else default})"
    how: dict[str, Any] = {"default": default}
    if default is MISSING:
        shown, how = "(required)", {"required": True}
    how["help"] = f"{help} {shown}".strip().replace("%", "%%")
    if one is bool:
        how["help"] = f"{help} (default: %(default)s)"
        parser.add_argument(f"--{name.replace('_', '-')}", action=BooleanOptionalAction, **how)
    elif argument:
        parser.add_argument(name, type=one, nargs="?", **how)
    else:
        how |= {"type": _list_of(one) if several else _number(one, least) if one in (int, float) else one}
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="A,B" if several else one.__name__.upper(), **how)


def _number(kind: Callable[[str], Any], least: int | None) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            raise ArgumentTypeError(f"expected a number, got {text!r}") from None
        if least is not None and value < least:
            raise ArgumentTypeError(f"expected {least} or more, got {text}")
        return value

    return read


def _list_of(kind: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    def read(text: str) -> tuple[Any, ...]:
        words = [word.strip() for word in text.split(",")]
        if kind is int and not all(word.isdecimal() for word in words):
            raise ArgumentTypeError(f"expected integers separated by commas, such as 5000,10000, got {text!r}")
        return tuple(kind(word) for word in words)

    return read

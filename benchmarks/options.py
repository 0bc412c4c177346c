"""The options of an experiment: a dataclass whose fields carry their help, and the command line made from it."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from poli.errors import InputError
from poli.options import Option, option, options_of

__all__ = ["DRIVES", "MODEL", "PROCESSES", "REAL", "RUNS", "option", "parse"]

REAL = "folder of real sequences in the layout of KITTI odometry; without it, simulated scans only"
DRIVES = "folder where simulated drives are kept; missing ones are recorded"
RUNS = "folder where outcomes are kept; an interrupted benchmark resumes from there"
PROCESSES = "number of processes; 0: one per core"
MODEL = "name of a shipped model, or path of a .safetensors file"


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; `{self.prog} --help` lists the options")


def parse(experiment: ModuleType, prog: str, words: Sequence[str]) -> tuple[Any, Path, Path | None]:
    """Parse the command line of an experiment. Returns its `Options`, the output folder, and the file for a copy of the JSON."""
    parser = _Parser(prog=prog, description=experiment.__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for tables and plots (default: results)")
    parser.add_argument("--json", type=Path, help="also write the results to this file", metavar="FILE")
    for one in options_of(experiment.Options):
        _add(parser, one)
    found = vars(parser.parse_args(words))
    out, json_path = found.pop("out"), found.pop("json")
    return experiment.Options(**found), out, json_path


def _add(parser: ArgumentParser, one: Option) -> None:
    default = ",".join(map(str, one.default)) if one.several else one.default
    shown = "(required)" if default is MISSING else "" if default in (None, "") else f"(default: {default})"
    how: dict[str, Any] = {"required": True} if default is MISSING else {"default": one.default}
    how["help"] = f"{one.help} {shown}".strip().replace("%", "%%")
    flag = f"--{one.name.replace('_', '-')}"
    if one.kind is bool:
        parser.add_argument(flag, action=BooleanOptionalAction, **how)
    elif one.argument:
        parser.add_argument(one.name, type=one.kind, nargs="?", **how)
    else:
        parser.add_argument(flag, metavar="A,B" if one.several else one.kind.__name__.upper(), type=_reader(one), **how)


def _reader(one: Option) -> Callable[[str], Any]:
    """Read one value, or several separated by commas, within the limits of an option."""

    def read(text: str) -> Any:
        try:
            values = tuple(one.kind(word.strip()) for word in (text.split(",") if one.several else [text]))
        except ValueError:
            values = ()
        if not values or not all(map(one.allows, values)):
            raise ArgumentTypeError(
                f"expected {one.expected}{', or several separated by commas' if one.several else ''}, got {text!r}"
            )
        return values if one.several else values[0]

    return read

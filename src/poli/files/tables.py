"""JSON and TOML: settings, manifests and descriptions, never more than a few nested tables. What is read may be of strangers."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, NoReturn

from poli.errors import FormatError
from poli.files.atomic import atomic_path

DEEPEST = 64  # tables and lists in one another; what Python's parsers and printers follow is ten times that
_LARGEST_JSON, _LARGEST_TOML = 32 << 20, 1 << 20  # bytes
# `a.b.c = 1` nests a table a dot, and the parser takes quadratic time for it. The look-behind keeps this search itself linear.
_DOTTED = re.compile(r"""(?<![\w.-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)""" + f"{{{DEEPEST + 1}}}")


def read_json(path: Path) -> Any:
    """What the file holds. FileNotFoundError is left to the caller, who knows what it means."""
    return parse_json(_text(path, "JSON", _LARGEST_JSON), path)


def write_json(path: Path, content: Any) -> None:
    """Whole or not at all; what JSON cannot hold, NaN among it, raises ValueError or TypeError, and nothing is written."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def parse_json(text: str, where: object) -> Any:
    """JSON itself: NaN and Infinity, which Python would take, are refused."""
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise FormatError(f"{where}: nested deeper than {DEEPEST} levels; it is damaged, or was made to do harm") from None
    except ValueError as error:
        raise FormatError(f"{where}: not readable as JSON: {str(error)[:120]}") from None
    return _shallow(found, where)


def read_toml(path: Path) -> dict[str, Any]:
    text = _text(path, "TOML", _LARGEST_TOML)
    if _DOTTED.search(text):
        raise FormatError(f"{path}: a name of more than {DEEPEST} parts; it is damaged, or was made to do harm")
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise FormatError(f"{path}: nested deeper than {DEEPEST} levels; it is damaged, or was made to do harm") from None
    except ValueError as error:  # TOMLDecodeError, and what dates and long numbers raise
        raise FormatError(f"{path}: not a TOML file: {str(error)[:200]}") from None
    return _shallow(found, path)


def _text(path: Path, kind: str, most: int) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(raw) > most:
        raise FormatError(f"{path}: larger than {most >> 20} MiB; no {kind} file of poli's is")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not a {kind} file: {error}") from None


def _shallow(found: Any, where: object) -> Any:
    level, depth = [found], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise FormatError(f"{where}: nested deeper than {DEEPEST} levels; it is damaged, or was made to do harm")
        inner = [entry for entry in level if isinstance(entry, dict | list)]
        level = [value for entry in inner for value in (entry.values() if isinstance(entry, dict) else entry)]
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON's")

"""Read and write JSON and TOML, settings and manifests with a few nested tables, and read CSV logs. Input may be untrusted."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path
from typing import Any, NoReturn

from poli.errors import FormatError
from poli.io.atomic import atomic_path

_LARGEST_JSON, _LARGEST_TOML = 32 << 20, 1 << 16  # bytes; TOML is parsed in quadratic time: `a.b.c = 1` nests a table per dot


def read_json(path: Path) -> Any:
    """Return the content of a JSON file. FileNotFoundError passes through to the caller."""
    return parse_json(_text(path, "JSON", _LARGEST_JSON), path)


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically. Raise ValueError or TypeError for content that JSON cannot hold, such as NaN."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def parse_json(text: str, where: object) -> Any:
    """Parse strict JSON: NaN and Infinity, which Python would accept, are refused."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where}: not valid JSON: {str(error)[:120]}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file. FileNotFoundError passes through to the caller."""
    text = _text(path, "TOML", _LARGEST_TOML)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, and the errors that dates and long numbers raise
        raise FormatError(f"{path}: not a TOML file: {str(error)[:200]}") from None


def _text(path: Path, kind: str, most: int) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(raw) > most:
        raise FormatError(f"{path}: larger than {most >> 10} KiB, the limit for {kind} files")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not a {kind} file: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a valid JSON number")


def read_log(path: Path) -> list[dict[str, str]]:
    """Return the rows, without a last line that a killed process left unfinished."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        whole = [row for row in rows if None not in row and None not in row.values() and all(row.values())]
        if rows and not (all("step" in row for row in rows) and all(int(row["step"]) >= 0 for row in whole)):
            raise ValueError
    except (ValueError, csv.Error):  # binary data, steps that are not numbers, oversized fields
        raise FormatError(f"{path}: not a log of `poli train`; remove it, or start over with --fresh") from None
    return whole

"""How a benchmark writes what it found: a table on the screen and as Markdown, the figures as JSON, with what they were made by."""

import importlib.metadata
import json
import math
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from poli.files.atomic import atomic_path
from poli.printable import printable
from poli.threads import thread_count


@dataclass(frozen=True)
class Report:
    title: str
    command: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    figures: Mapping[str, Any]


def publish(report: Report, name: str, out: Path, json_path: Path | None) -> None:
    """Print the table, and write `name`.md and `name`.json to `out`, the JSON also where the caller asks."""
    table = Table(*report.columns, title=report.title)
    for row in report.rows:
        table.add_row(*row)
    console = Console()
    console.print(table)
    for note in report.notes:
        console.print(note)
    lines = [f"# {report.title}", "", f"`{report.command}` on {environment()}", ""]
    lines += ["| " + " | ".join(report.columns) + " |", "|" + "---|" * len(report.columns)]
    lines += ["| " + " | ".join(row) + " |" for row in report.rows]
    lines += ["", *(f"- {note}" for note in report.notes), ""]
    out.mkdir(parents=True, exist_ok=True)
    _write(out / f"{name}.md", "\n".join(lines))
    figures = json.dumps({**report.figures, "command": report.command, "environment": environment()}, indent=2) + "\n"
    for path in {out / f"{name}.json", json_path or out / f"{name}.json"}:
        _write(path, figures)
    where = f"Written to {out / name}.md and {name}.json" + (f", and {json_path}" if json_path else "")
    console.print(printable(where), markup=False)


def environment() -> str:
    """The machine and the versions that the figures hang on."""
    packages = ("numpy", "numba", "clarabel", "torch", "cvxpylayers", "open3d", "small_gicp")
    versions = []
    for package in packages:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{_processor()}, {os.cpu_count()} cores, {thread_count()} threads; Python {python}, {', '.join(versions)}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def _write(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text)


# --- cells of a table; a number that there is not is a dash

NONE = "-"


def bold_lowest(values: Mapping[str, float], cells: Mapping[str, str]) -> dict[str, str]:
    finite = [value for value in values.values() if math.isfinite(value)]
    return {name: f"**{cell}**" if finite and values[name] == min(finite) else cell for name, cell in cells.items()}


def centimetres(metres: float) -> str:
    return NONE if math.isnan(metres) else f"{100 * metres:.2f}" if metres < 0.1 else f"{100 * metres:.1f}"


def degrees(value: float) -> str:
    return NONE if math.isnan(value) else f"{value:.3f}°"


def percent(value: float, *, signed: bool = False, digits: int = 1) -> str:
    return NONE if math.isnan(value) else f"{value:{'+' if signed else ''}.{digits}f} %"


def milliseconds(value: float, unit: float) -> str:
    """And, in brackets, how many times `unit` it is."""
    if math.isnan(value):
        return NONE
    return f"{value:.1f}" if math.isnan(unit) else f"{value:.1f} ({value / unit:.2f})"

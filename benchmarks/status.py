"""Which tables of docs/results are current, which are older than what they measure, and which pages cite them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.options import parse
from benchmarks.provenance import ROOT, source_digest, weights_digest
from poli.errors import PoliError
from poli.estimation.estimate import shipped_models

RESULTS = ROOT / "docs" / "results"
_CITED = re.compile(r"results/(\w+)\.(?:md|json|png)|<!-- result: (\w+) -->")


@dataclass(frozen=True)
class Result:
    name: str
    stale: list[str]  # the reasons; empty: current
    cited: list[str]  # pages


def print_status() -> int:
    """Print one row per table. Returns 1 if a page cites a table that is not current."""
    found = list(results())
    screen = Table("table", "state", "cited by", title="Tables of docs/results")
    for one in found:
        screen.add_row(one.name, "; ".join(one.stale) or "current", ", ".join(one.cited) or "nobody")
    stale = [one for one in found if one.stale]
    console = Console(width=None if Console().is_terminal else 200)
    console.print(screen)
    console.print(f"{len(found)} tables, {len(stale)} not current, {sum(bool(one.cited) for one in stale)} of them cited")
    return int(any(one.cited for one in stale))


def results() -> Iterator[Result]:
    cited = citations()
    for path in sorted(RESULTS.glob("*.md")):
        about = json.loads(path.with_suffix(".json").read_text()) if path.with_suffix(".json").is_file() else {}
        yield Result(path.stem, why_stale(about), cited.get(path.stem, []))


def why_stale(about: Mapping[str, Any]) -> list[str]:
    """Reasons why a table may no longer be true, from what is recorded in its JSON."""
    reasons = []
    if "weights" not in about:
        reasons.append("no record of its weights")
    for model, digest in about.get("weights", {}).items():
        if f"{model}.safetensors" in about.get("command", ""):
            continue  # a file of the user, compared on purpose
        if model not in shipped_models():
            reasons.append(f"model {model} is not shipped")
        elif digest != weights_digest(model):
            reasons.append(f"other weights of {model}")
    words = shlex.split(about.get("command", ""))[3:]  # after `python -m benchmarks`
    if not words:
        return [*reasons, "no command"]
    try:
        experiment = import_module(f"benchmarks.experiments.{words[0]}")
        options, _, _ = parse(experiment, words[0], words[1:])
    except (ModuleNotFoundError, PoliError, SystemExit):
        return [*reasons, "its command no longer exists"]
    if "source" in about and about["source"] != source_digest(words[0], getattr(options, "name", "")):
        reasons.append(f"{words[0]} has changed since")
    return reasons


def citations() -> dict[str, list[str]]:
    """Pages by the table that they cite, show, or whose plots they show."""
    names = [path.stem for path in RESULTS.glob("*.md")]
    found: dict[str, list[str]] = {}
    for page in _pages():
        for match in _CITED.finditer(page.read_text(encoding="utf-8")):
            cited = owner(match[1] or match[2], names)
            pages = found.setdefault(cited, [])
            if str(page.relative_to(ROOT)) not in pages:
                pages.append(str(page.relative_to(ROOT)))
    return found


def owner(name: str, tables: Sequence[str]) -> str:
    """The table of a name: its own, or that of a plot, such as `geometry` of `geometry_sides`."""
    return max((table for table in tables if name == table or name.startswith(f"{table}_")), key=len, default=name)


def _pages() -> list[Path]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    return sorted(page for page in pages if RESULTS not in page.parents)

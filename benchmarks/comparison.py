"""docs/comparison.md: each table and figure of the paper beside ours, made from a template and docs/results.

The template is benchmarks/experiments/paper/comparison.md. In it, `[[paper TABLE1]]` is a table of `numbers.py`; `[[a b]]` is the
table of docs/results/a.md, or of b.md if there is no a.md; `[[a.png b.png]]` is a picture likewise; and `{a[field]:.1f}` is a
number of docs/results/a.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from benchmarks.experiments.paper import numbers
from benchmarks.provenance import ROOT
from benchmarks.report import NONE, show
from benchmarks.status import RESULTS
from poli.io.atomic import atomic_path

PAGE = ROOT / "docs" / "comparison.md"
TEMPLATE = ROOT / "benchmarks" / "experiments" / "paper" / "comparison.md"
_DIRECTIVE = re.compile(r"^\[\[(.+)\]\]$", re.MULTILINE)


def write_page() -> None:
    with atomic_path(PAGE) as temporary:
        temporary.write_text(page(TEMPLATE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"Written to {PAGE}")


def page(template: str) -> str:
    """Fill in a template."""
    filled = _DIRECTIVE.sub(lambda match: _filled(match[1].split()), show(template, _Results()))
    return re.sub(r"\n{3,}", "\n\n", filled)


class _Results(dict[str, Any]):
    """The contents of the files of docs/results, by name."""

    def __missing__(self, name: str) -> Any:
        return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _filled(names: list[str]) -> str:
    if names[0] == "paper":
        return _table_of(getattr(numbers, names[1]))
    there = [name for name in names if (RESULTS / (name if "." in name else f"{name}.md")).is_file()]
    if not there:
        return "" if "." in names[0] else "Not run here."
    if "." in there[0]:
        return f"![{there[0].partition('.')[0].replace('_', ' ')}](results/{there[0]})"
    lines = (RESULTS / f"{there[0]}.md").read_text(encoding="utf-8").splitlines()
    return "\n".join([*(line for line in lines if line.startswith("|")), "", f"[How it was made](results/{there[0]}.md)"])


def _table_of(table: Mapping[Any, Mapping[Any, float]]) -> str:
    """Numbers of the paper as Markdown, one row per key."""
    columns = list(dict.fromkeys(column for row in table.values() for column in row))
    lines = [["", *map(str, columns)], ["---"] * (len(columns) + 1)]
    for key, row in table.items():
        name = ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)
        lines.append([name, *(f"{row[column]:g}" if column in row else NONE for column in columns)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines).replace("| --- ", "|---").replace("|--- |", "|---|")

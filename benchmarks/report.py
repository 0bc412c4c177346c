"""Reports: long-form records, pivoted into one table, and written as Markdown, JSON and plots."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as Screen

from benchmarks.provenance import Origin, command_line, environment, one_line
from poli.errors import MissingExtra, printable
from poli.io.atomic import atomic_path

Record = Mapping[str, Any]
# A template such as "{ms:.1f}", or a function of the record that a cell shows.
Cell = str | Callable[[Record], str]
NONE = "-"  # a number that is not available


@dataclass(frozen=True)
class Column:
    title: str
    cell: Cell
    lowest: str = ""  # the field whose lowest value is bold, among the rows that agree in `Table.among`


@dataclass(frozen=True)
class Table:
    """A pivot of long-form records: which of their fields make rows, columns and cells.

    Records with the same index cells form one row. Where a cell has several records, it shows the means of their numbers.
    """

    index: Sequence[Column]
    cells: Sequence[Column] = ()
    across: str = ""  # the field whose values become separate columns, after `cells`
    cell: Cell = ""  # what those columns show
    lowest: str = ""  # the field whose lowest value is bold among those columns
    highest: str = ""  # or whose highest value is
    order: Sequence[Any] = ()  # the values that become columns; default: all, in order of appearance
    then: Sequence[tuple[str, Callable[[dict[Any, Record]], str]]] = ()  # columns computed from a whole row: value -> record
    among: Cell = ""
    digits: int = 12  # for comparing values

    def render(self, records: Iterable[Record]) -> tuple[list[str], list[list[str]]]:
        """Return the column titles and the rows."""
        groups: dict[tuple[str, ...], list[Record]] = {}
        for record in records:
            groups.setdefault(tuple(show(column.cell, record) for column in self.index), []).append(record)
        values = list(self.order)
        if self.across and not values:
            values = list(dict.fromkeys(r[self.across] for group in groups.values() for r in group))
        columns = [column.title for column in (*self.index, *self.cells)]
        columns += [*map(str, values), *(title for title, _ in self.then)]
        means = {names: mean_record(group) for names, group in groups.items()}
        rows = []
        for names, group in groups.items():
            cells = [*names, *(self._bold(column, means[names], means.values()) for column in self.cells)]
            by = {v: mean_record(those) for v in values if (those := [r for r in group if r[self.across] == v])}
            best = self._best(by.values(), self.lowest, self.highest)
            for value in values:
                text = show(self.cell, by[value]) if value in by else NONE
                bold = text != NONE and best is not None and round(by[value][self.lowest or self.highest], self.digits) == best
                cells.append(f"**{text}**" if bold else text)
            rows.append(cells + [make(by) for _, make in self.then])
        return columns, rows

    def _bold(self, column: Column, mine: Record, everyone: Iterable[Record]) -> str:
        text = show(column.cell, mine)
        if not column.lowest:
            return text
        rivals = [record for record in everyone if show(self.among, record) == show(self.among, mine)]
        return f"**{text}**" if round(mine[column.lowest], self.digits) == self._best(rivals, column.lowest) else text

    def _best(self, records: Iterable[Record], lowest: str, highest: str = "") -> float | None:
        """The best finite value of a field, or None if fewer than two records compete."""
        name = lowest or highest
        finite = [round(record[name], self.digits) for record in records if name and math.isfinite(record[name])]
        return None if len(finite) < 2 else min(finite) if lowest else max(finite)


def column_list(**cells: Cell) -> list[Column]:
    """Columns by name; underscores become spaces."""
    return [Column(name.replace("_", " "), cell) for name, cell in cells.items()]


def mean_record(records: Sequence[Record]) -> Record:
    """Means of all numeric fields, ignoring NaN; the first value of other fields."""
    if len(records) == 1:
        return records[0]
    return {name: _mean([record[name] for record in records]) for name in records[0]}


def _mean(values: Sequence[Any]) -> Any:
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values) or len(set(values)) == 1:
        return values[0]
    return mean(values)


def mean(values: Iterable[float]) -> float:
    """Mean of the values, ignoring NaN; NaN if there are none."""
    finite = [value for value in values if not math.isnan(value)]
    return float(np.mean(finite)) if finite else math.nan


# --- cells


def centimeters(meters: float) -> str:
    return f"{100 * meters:.2f}" if meters < 0.1 else f"{100 * meters:.1f}"


_UNITS: dict[str, Callable[[float], str]] = {
    "cm": centimeters,
    "deg": lambda value: f"{value:.3f}°",
    "%": lambda value: f"{value:.1f} %",
    "%2": lambda value: f"{value:.2f} %",
    "share": lambda value: f"{100 * value:.0f} %",
    "+%": lambda value: f"{value:+.1f} %",
}


class _Formatter(string.Formatter):
    """Cell templates: the units above are format specifications, and missing numbers become a dash."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return NONE
        return _UNITS[format_spec](value) if format_spec in _UNITS else format(value, format_spec)


def show(cell: Cell, record: Record) -> str:
    return _Formatter().vformat(cell, (), record) if isinstance(cell, str) else cell(record)


# --- plots


@dataclass(frozen=True)
class Plot:
    """A plot of records as lines or bars: one per value of `by`, in one panel per value of `panel`."""

    x: str
    y: str
    by: str
    xlabel: str
    ylabel: str
    panel: str = ""
    kind: str = "lines"  # or "bars", or "loglog"
    title: str = "{panel}"
    scale: float = 1.0  # of y
    dashed: Callable[[str], bool] = lambda name: False
    colors: Mapping[str, str] = field(default_factory=dict)
    ylim: tuple[float, float] | None = None
    level: tuple[str, float] | None = None  # a horizontal line: its name and its value
    stacked: bool = False  # stack panels vertically

    def draw(self, records: Sequence[Record], path: Path) -> None:
        panels = dict.fromkeys(record[self.panel] if self.panel else "" for record in records)
        shape = (len(panels), 1) if self.stacked else (1, len(panels))
        plt = pyplot()
        size = (8.0, 0.8 + 2.4 * len(panels)) if self.stacked else (1.0 + 5.5 * len(panels), 4.4)
        figure, axes = plt.subplots(*shape, figsize=size, squeeze=False, sharey=not self.stacked)
        for panel, drawn in zip(panels, axes.ravel(), strict=True):
            here = [record for record in records if not self.panel or record[self.panel] == panel]
            self._draw(drawn, here)
            drawn.set_title(self.title.format(panel=panel))
        figure.tight_layout()
        legends = [drawn.get_legend_handles_labels() for drawn in axes.ravel()]
        if all(names == legends[0][1] for _, names in legends):  # one legend for all, below the panels
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "ncols": 4 if len(panels) > 1 else 2}
            figure.legend(*legends[0], fontsize=8, frameon=False, **place)
        else:
            for drawn in axes.ravel():
                drawn.legend(fontsize=8)
        save_figure(figure, path)
        plt.close(figure)

    def _draw(self, axes: Any, records: Sequence[Record]) -> None:
        names = list(dict.fromkeys(record[self.by] for record in records))
        places = list(dict.fromkeys(record[self.x] for record in records))
        for number, name in enumerate(names):
            mine = {}
            for x in places:
                here = [record for record in records if (record[self.by], record[self.x]) == (name, x)]
                value = mean_record(here)[self.y] if here else math.nan
                if not math.isnan(value):
                    mine[x] = self.scale * value
            x, y = list(mine), list(mine.values())
            if self.kind == "bars":
                at = [places.index(place) + (number - 0.5 * (len(names) - 1)) * 0.8 / len(names) for place in x]
                axes.bar(at, y, 0.8 / len(names), label=name, color=self.colors.get(name))
            else:
                style = "--" if self.dashed(name) else "-"
                axes.plot(x, y, style, marker="o", ms=4, label=name, color=self.colors.get(name))
        if self.kind == "bars":
            axes.set_xticks(range(len(places)), places, rotation=30, ha="right", rotation_mode="anchor", fontsize=8)
        if self.kind == "loglog":
            axes.set(xscale="log", yscale="log")
        if self.level:
            axes.axhline(self.level[1], color="k", lw=0.8, ls=":", label=self.level[0])
        axes.set(xlabel=self.xlabel, ylabel=self.ylabel, **({"ylim": self.ylim} if self.ylim else {}))
        axes.grid(True, which="both", axis="y" if self.kind == "bars" else "both", alpha=0.3)


# --- reports


@dataclass(frozen=True)
class Report:
    name: str  # base name of its files: NAME.md, NAME.json, NAME.png
    title: str
    records: Sequence[Record]  # long form: one per measurement
    table: Table
    notes: Sequence[str] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)  # in the JSON file, in addition to the records
    plots: Mapping[str, Plot | Callable[[Path], None]] = field(default_factory=dict)  # by file name, without .png
    shown: Sequence[Record] | None = None  # the records in the table, if they differ from `records`

    @property
    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the column titles and the rows."""
        return self.table.render(self.records if self.shown is None else self.shown)


def publish(report: Report, out: Path, json_path: Path | None = None, origin: Origin | None = None) -> None:
    """Print the table; write the Markdown, the JSON and the plots to `out`, the JSON also to `json_path`. With `origin`, both say
    where the table comes from."""
    columns, rows = report.cells
    screen = Screen(*columns, title=report.title)
    for row in rows:
        screen.add_row(*row)
    console = Console()
    console.print(screen)
    for note in report.notes:
        console.print(note)
    figures = plain({**report.summary, "records": report.records})
    text = json.dumps(figures) + " ".join(report.notes)
    about = origin.about(text) if origin else {"command": command_line(), "environment": environment()}
    lines = [f"# {report.title}", "", one_line(about) if origin else f"`{command_line()}` on {environment()}", ""]
    lines += [f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows)]
    lines += ["", *(f"- {note}" for note in report.notes), ""]
    out.mkdir(parents=True, exist_ok=True)
    _write(out / f"{report.name}.md", "\n".join(lines).replace("| --- ", "|---").replace("|--- |", "|---|"))
    written = json.dumps({**about, **figures}, indent=2, allow_nan=False) + "\n"
    for path in {out / f"{report.name}.json", json_path or out / f"{report.name}.json"}:
        _write(path, written)
    for name, plot in report.plots.items():
        if isinstance(plot, Plot):
            plot.draw(report.records, out / f"{name}.png")
        else:
            plot(out / f"{name}.png")
    where = f"Written to {out / report.name}.md and {report.name}.json" + (f", and {json_path}" if json_path else "")
    console.print(printable(where), markup=False)


def plain(value: Any) -> Any:
    """Convert to JSON types; NaN and infinity become null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text)


def pyplot() -> ModuleType:
    """Import matplotlib.pyplot with a backend that needs no screen."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("plotting", "bench") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=120, bbox_inches="tight")

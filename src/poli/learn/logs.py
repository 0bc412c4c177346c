"""CSV logs that survive a restart: rows after the checkpoint are dropped when the run is resumed."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from poli.errors import FormatError
from poli.files.atomic import atomic_path
from poli.files.failures import writing


class CsvLog:
    """A CSV file with one row per logged step."""

    def __init__(self, path: Path, columns: Sequence[str], steps_done: int) -> None:
        self.path, self.columns = path, list(columns)
        before = read_log(path) if path.exists() else []  # raises, rather than overwrite a file that is not a log
        kept = [row for row in before if int(row["step"]) <= steps_done] if steps_done else []
        with atomic_path(path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(kept)

    def append(self, row: Mapping[str, float]) -> None:
        text = {name: value if isinstance(value, int) else f"{value:.6g}" for name, value in row.items()}
        with writing(self.path), self.path.open("a", newline="") as file:
            csv.DictWriter(file, self.columns).writerow(text)


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

"""What has been done so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Tally:
    scans: int = 0
    kept: int = 0  # of them, those that an earlier run had done
    points_in: int = 0
    points_out: int = 0
    unchanged: int = 0  # scans that got no points
    why: str = ""  # the first of them

    def add(self, points_in: int, points_out: int, why: str = "", kept: bool = False) -> None:
        self.scans += 1
        self.kept += kept
        self.points_in += points_in
        self.points_out += points_out
        self.unchanged += bool(why)
        self.why = self.why or why

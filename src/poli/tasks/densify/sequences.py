"""Select sequences of a dataset, and the files that belong to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from poli.data.datasets.kitti import sequence_name
from poli.errors import InputError

SEVERAL = ("kitti", "helipr", "mulran")  # datasets that may have several sequences
_SIGNS = {"helipr": ("LiDAR",), "mulran": ("Ouster", "sensor_data/Ouster")}  # subfolders by which a sequence is recognized


class Chosen:
    """The selected sequences. If `wanted` is empty, all are selected."""

    def __init__(self, kind: str, source: Path, wanted: Sequence[str]) -> None:
        self._kind = kind
        self.names = tuple(dict.fromkeys(sequence_name(name) if kind == "kitti" else name for name in wanted))
        if self.names and kind not in SEVERAL:
            raise InputError(f"{source}: datasets of kind {kind!r} have no sequences; only {', '.join(SEVERAL)} have")
        self._there = _sequences(kind, source) if self.names else []
        for name in self.names:
            if name not in self._there:
                raise InputError(f"{source}: no sequence {name!r}; there are {', '.join(self._there) or 'none'}")

    def holds(self, path: Path) -> bool:
        """Whether a file, given by its path in the tree, belongs to a selected sequence or to no sequence."""
        sequence = self._sequence_of(path) if self.names else None
        return sequence is None or sequence in self.names

    def _sequence_of(self, path: Path) -> str | None:
        parts = path.parts
        if self._kind != "kitti":
            return parts[0] if parts[0] in self._there else None
        parts = parts[1:] if parts[0] == "dataset" else parts  # the layout of KITTI's archives
        if len(parts) > 2 and parts[0] == "sequences":
            return parts[1]
        return path.stem if len(parts) == 2 and parts[0] == "poses" else None


def _sequences(kind: str, source: Path) -> list[str]:
    if kind != "kitti":
        return sorted(p.name for p in source.iterdir() if any((p / sign).is_dir() for sign in _SIGNS[kind]))
    folders = (source / "sequences", source / "dataset" / "sequences")
    return sorted(p.name for folder in folders if folder.is_dir() for p in folder.iterdir() if (p / "velodyne").is_dir())

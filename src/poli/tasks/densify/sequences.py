"""Some sequences of a dataset: which of its files are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from poli.data.datasets.kitti import sequence_name
from poli.errors import InputError

SEVERAL = ("kitti", "helipr", "mulran")  # datasets that may have several
_SIGNS = {"helipr": ("LiDAR",), "mulran": ("Ouster", "sensor_data/Ouster")}  # that a folder is a sequence


class Chosen:
    """The sequences that are `wanted`; none: all that there are."""

    def __init__(self, kind: str, source: Path, wanted: Sequence[str]) -> None:
        self._kind = kind
        self.names = tuple(dict.fromkeys(sequence_name(name) if kind == "kitti" else name for name in wanted))
        if self.names and kind not in SEVERAL:
            raise InputError(f"{source}: a tree of kind {kind!r} has no sequences; those of {', '.join(SEVERAL)} have")
        self._there = _sequences(kind, source) if self.names else []
        for name in self.names:
            if name not in self._there:
                raise InputError(f"{source}: no sequence {name!r} here. There are: {', '.join(self._there) or 'none'}")

    def holds(self, path: Path) -> bool:
        """Whether a file, by its path in the tree, is of one of them, or of none in particular."""
        sequence = self._sequence_of(path) if self.names else None
        return sequence is None or sequence in self.names

    def _sequence_of(self, path: Path) -> str | None:
        parts = path.parts
        if self._kind != "kitti":
            return parts[0] if parts[0] in self._there else None
        parts = parts[1:] if parts[0] == "dataset" else parts  # as KITTI's archives unpack
        if len(parts) > 2 and parts[0] == "sequences":
            return parts[1]
        return path.stem if len(parts) == 2 and parts[0] == "poses" else None


def _sequences(kind: str, source: Path) -> list[str]:
    if kind != "kitti":
        return sorted(p.name for p in source.iterdir() if any((p / sign).is_dir() for sign in _SIGNS[kind]))
    folders = (source / "sequences", source / "dataset" / "sequences")
    return sorted(p.name for folder in folders if folder.is_dir() for p in folder.iterdir() if (p / "velodyne").is_dir())

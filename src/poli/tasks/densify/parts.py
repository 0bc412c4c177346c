"""Finished messages of a bag that is not finished: a run that was killed takes them up instead of computing them again."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from poli.files.atomic import atomic_path
from poli.tasks.densify.identity import read_run, write_run
from poli.tasks.densify.workspace import PARTS

_HEADER = struct.Struct("<IQQ")  # check sum of the message, points that it had, points that it has


class Message(NamedTuple):
    raw: bytes
    points_in: int
    points_out: int
    why: str = ""  # nothing was added, if nothing was; not kept in files


class Parts:
    """One file a message, by its number in the topic, in `folder`/parts. Those of another `run` are removed."""

    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        self._folder = folder / PARTS
        if read_run(folder / "run.json") != run:
            shutil.rmtree(self._folder, ignore_errors=True)
            write_run(folder / "run.json", run)
        self._folder.mkdir(exist_ok=True)

    def has(self, number: int) -> bool:
        return self._path(number).is_file()

    def load(self, number: int) -> Message | None:
        """None where there is none, or a damaged one: after a power cut, names can outlive what they named."""
        try:
            data = self._path(number).read_bytes()
        except FileNotFoundError:
            return None
        if len(data) < _HEADER.size:
            return None
        check, points_in, points_out = _HEADER.unpack_from(data)
        raw = data[_HEADER.size :]
        return Message(raw, points_in, points_out) if crc32(raw) == check else None

    def save(self, number: int, message: Message) -> None:
        with atomic_path(self._path(number)) as temporary, temporary.open("wb") as file:
            file.write(_HEADER.pack(crc32(message.raw), message.points_in, message.points_out))
            file.write(message.raw)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}.part"


class NoParts:
    """For those who would rather have the room on the disk."""

    def has(self, number: int) -> bool:
        return False

    def load(self, number: int) -> Message | None:
        return None

    def save(self, number: int, message: Message) -> None:
        pass

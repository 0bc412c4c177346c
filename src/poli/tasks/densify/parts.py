"""Finished messages of a bag that is not finished: a run that was killed takes them up instead of computing them again.

Each has a digest over what it is and which message it is of, with a key that is drawn for the run and lies beside them in a folder
that only the user can enter. So no part is used that is damaged, of another run, in the place of another, or not of this user.
"""

from __future__ import annotations

import os
import secrets
import shutil
import struct
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import Any, NamedTuple

from poli.files.atomic import atomic_path
from poli.files.locks import CLOSE_ON_EXEC, NO_FOLLOW
from poli.tasks.densify.identity import read_run, write_run
from poli.tasks.densify.workspace import PARTS, RUN

_DIGEST = 32  # bytes
_HEADER = struct.Struct("<QQ")  # points that the message had, points that it has
_KEY = "key"


class Message(NamedTuple):
    raw: bytes
    points_in: int
    points_out: int
    why: str = ""  # nothing was added, if nothing was; not kept in files


class Parts:
    """One file a message, by its number in the topic, in `folder`/parts. Those of another `run` are removed."""

    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        self._folder = folder / PARTS
        before = read_run(folder / RUN) or {}
        self._key = _key_of(before.pop(_KEY, None))
        if before != run or not self._key:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._key = secrets.token_bytes(_DIGEST)
            write_run(folder / RUN, {**run, _KEY: self._key.hex()})
        self._folder.mkdir(exist_ok=True)

    def load(self, number: int) -> Message | None:
        """None where there is none, or none that this run wrote: after a power cut, names can outlive what they named."""
        try:
            with open(self._path(number), "rb", opener=_opener) as file:
                data = file.read()
        except OSError:
            return None
        digest, content = data[:_DIGEST], data[_DIGEST:]
        if len(content) < _HEADER.size or not compare_digest(digest, self._digest(number, content)):
            return None
        return Message(content[_HEADER.size :], *_HEADER.unpack_from(content))

    def save(self, number: int, message: Message) -> None:
        content = _HEADER.pack(message.points_in, message.points_out) + message.raw
        with atomic_path(self._path(number)) as temporary, temporary.open("wb") as file:
            file.write(self._digest(number, content))
            file.write(content)

    def _digest(self, number: int, content: bytes) -> bytes:
        digest = blake2b(struct.pack("<Q", number), key=self._key, digest_size=_DIGEST)
        digest.update(content)
        return digest.digest()

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}.part"


class NoParts:
    """For those who would rather have the room on the disk."""

    def load(self, number: int) -> Message | None:
        return None

    def save(self, number: int, message: Message) -> None:
        pass


def _key_of(text: object) -> bytes:
    try:
        key = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        return b""
    return key if len(key) == _DIGEST else b""


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | NO_FOLLOW | CLOSE_ON_EXEC)

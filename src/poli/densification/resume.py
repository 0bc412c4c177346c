"""Resume a killed run: its description, its hidden workspace, and the messages it has finished.

The workspace is the folder `.OUT.densify` next to the output. Its name is predictable, so another user could create it:
`private_folder` checks that it belongs to this user, and links and unexpected entries in it are refused. Each finished message of a
bag has a digest over its content and number, with a random key of the run that is stored next to it. Parts that are damaged,
swapped, of another run, or of another user are therefore not used.
"""

from __future__ import annotations

import os
import secrets
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from hashlib import blake2b, sha256
from hmac import compare_digest
from pathlib import Path
from typing import Any, NamedTuple

import poli
from poli.configs import DensifyConfig
from poli.errors import FormatError
from poli.estimation.estimate import load_model, shipped_models
from poli.io.atomic import atomic_path, discard_folder, refuse_overwriting, remove_stale, writing
from poli.io.locks import CLOSE_ON_EXEC, LOCK_FILE, NO_FOLLOW, private_folder
from poli.io.tables import read_json, write_json

TEMPORARY, PARTS, RUN = "temporary", "parts", "run.json"
_FINISHED = "finished"  # a file: the output is complete, and the folder only has to be removed
_OLD_LOCK = "lock"  # a file of earlier releases
_DIGEST = 32  # bytes
_HEADER = struct.Struct("<QQ")  # points before, points after
_KEY = "key"


# --- the run: runs with the same description give the same bytes


def describe_run(source: Path, config: DensifyConfig, **more: Any) -> dict[str, Any]:
    """Return the description of a run. Loads the model, so that errors occur before anything is written."""
    model: dict[str, Any] = {}
    if config.model != "pca":
        load_model(config.model)
        if config.model not in shipped_models():
            model["model_sha256"] = sha256(Path(config.model).read_bytes()).hexdigest()
    options = asdict(config)
    if config.calibration is None:
        options.pop("calibration")  # runs of earlier releases, which had no such option, resume
    else:
        options["calibration"] = sha256(repr(config.calibration).encode()).hexdigest()
    return {"poli": poli.__version__, "input": str(source.resolve()), **more, **model, "densify": options}


def read_run(path: Path) -> dict[str, Any] | None:
    """Return the stored description of a run, {} if it is damaged, or None if there is none."""
    try:
        found = read_json(path)
    except FileNotFoundError:
        return None
    except FormatError:
        return {}
    return found if isinstance(found, dict) else {}


def differences(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Return the names of the entries that differ, for an error message."""
    flat_before, flat_now = ({**run, **(run["densify"] if isinstance(run.get("densify"), dict) else {})} for run in (before, now))
    names = [name for name in {**flat_now, **flat_before} if name != "densify" and flat_before.get(name) != flat_now.get(name)]
    return ", ".join(names) or "its format"


def check_apart(source: Path, out: Path) -> None:
    refuse_overwriting(out, source)
    here, there = source.resolve(), out.resolve()
    if here in there.parents or there in here.parents:
        raise FormatError(f"{out}: input and output are inside each other; choose an output outside the input")


# --- the hidden folder


def workspace_of(out: Path) -> Path:
    return out.with_name(f".{out.name}.densify")


@contextmanager
def workspace(out: Path) -> Iterator[Path]:
    """Lock the workspace for one run, and yield it with an empty folder `temporary` inside.

    It is removed if the run succeeds. If the run fails or is killed, finished parts are kept for the next run.
    """
    if not out.parent.is_dir():
        raise FormatError(f"{out}: the folder {out.parent} does not exist; create it first")
    folder = workspace_of(out)
    with writing(out, folder), private_folder(folder, f"{out}: another run is writing it; wait for that run, or give another name"):
        remove_stale(out.parent)
        _check_contents(folder)
        (folder / _FINISHED).unlink(missing_ok=True)
        temporary = folder / TEMPORARY
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            yield folder
        except BaseException:
            if (folder / PARTS).is_dir():
                shutil.rmtree(temporary, ignore_errors=True)
            else:
                discard_folder(folder)
            raise
        discard_folder(folder)


def mark_finished(folder: Path) -> None:
    """Mark a workspace as no longer needed, in case the run is killed before removing it."""
    (folder / _FINISHED).touch()


def remove_finished(out: Path) -> None:
    """Remove the workspace of a run that was killed after writing `out`. Other workspaces are kept."""
    remove_stale(out.parent)
    folder = workspace_of(out)
    if not (folder / _FINISHED).is_file():
        return
    with suppress(FormatError, OSError), private_folder(folder, "it is in use", make=False):
        _check_contents(folder)
        if (folder / _FINISHED).is_file():
            discard_folder(folder)


def _check_contents(folder: Path) -> None:
    (folder / _OLD_LOCK).unlink(missing_ok=True)  # of a link, only the link itself
    remove_stale(folder)
    for entry in folder.iterdir():
        expected = entry.is_dir() if entry.name in (TEMPORARY, PARTS) else entry.is_file()
        if entry.is_symlink() or not expected or entry.name not in (TEMPORARY, PARTS, RUN, _FINISHED, LOCK_FILE):
            raise FormatError(f"{entry}: was not created by poli; remove {folder}, or choose another output name")


# --- finished messages of a bag


class Message(NamedTuple):
    raw: bytes
    points_in: int
    points_out: int
    why: str = ""  # reason if no points were added; not stored in files


class Parts:
    """Finished messages in `folder`/parts, one file per message, named by number. Parts of another `run` are removed."""

    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        self._folder = folder / PARTS
        before = read_run(folder / RUN) or {}
        self._key = _key_of(before.pop(_KEY, None))
        if before != run or not self._key:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._key = secrets.token_bytes(_DIGEST)
            write_json(folder / RUN, {**run, _KEY: self._key.hex()})
        self._folder.mkdir(exist_ok=True)

    def load(self, number: int) -> Message | None:
        """Return a finished message, or None if it is missing or not intact: after a power cut, a file may be empty."""
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
    """Keeps no finished messages, to save disk space."""

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

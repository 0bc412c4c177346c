"""Copy a bag and replace its clouds: same file names, all other content unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePath
from typing import Protocol

from poli.io.datasets.bag_codecs import compress, compress_file, decompress, inflate_file
from poli.io.datasets.bag_copiers import Item, Rosbag1Copy, SqliteCopy
from poli.io.datasets.mcap import McapCopy

__all__ = ["Item", "copy_of"]

_METADATA = "metadata.yaml"
_ZSTD = "zstd"  # the only compression used for whole files and single messages


class _FileCopy(Protocol):
    """A copy of one file. Writing the last item completes it; closing earlier leaves it incomplete."""

    def items(self) -> Iterator[Item]: ...

    def close(self) -> None: ...


_COPIES: dict[str, Callable[[Path, Path, str], _FileCopy]] = {".bag": Rosbag1Copy, ".mcap": McapCopy, ".db3": SqliteCopy}


@contextmanager
def copy_of(path: Path, out: Path, topic: str) -> Iterator[Iterator[Item]]:
    """Iterate over the items of the bag `path`, to be written in order to the new bag `out`; `topic` is the topic of the clouds."""
    with ExitStack() as opened:
        yield _file_items(path, out, topic, opened) if path.is_file() else _folder_items(path, out, topic, opened)


def _file_items(path: Path, out: Path, topic: str, opened: ExitStack) -> Iterator[Item]:
    copy = _COPIES[path.suffix](path, out, topic)
    opened.callback(copy.close)
    return copy.items()


def _folder_items(path: Path, out: Path, topic: str, opened: ExitStack) -> Iterator[Item]:
    """Yield the items of all files. metadata.yaml is copied: names, times and message counts do not depend on the clouds."""
    names, compressed = _read_metadata(path / _METADATA)
    out.mkdir()
    for name in names:
        if compressed == "file":
            yield from _compressed_file_items(path / name, out / name, topic, opened)
        else:
            items = _file_items(path / name, out / name, topic, opened)
            yield from map(_decompressed, items) if compressed == "message" else items
    yield Item((path / _METADATA).read_bytes(), False, lambda raw: _write_bytes(out / _METADATA, raw))


def _compressed_file_items(path: Path, out: Path, topic: str, opened: ExitStack) -> Iterator[Item]:
    """Yield the items of a compressed file, with temporary uncompressed files next to `out`."""
    before, after = (out.with_name(f".{which}.{out.stem}") for which in ("before", "after"))
    inflate_file(path, before)

    def finish(_: bytes) -> None:
        compress_file(after, out)
        before.unlink()
        after.unlink()

    yield from _file_items(before, after, topic, opened)
    yield Item(b"", False, finish)


def _decompressed(item: Item) -> Item:
    if not item.cloud:
        return item
    return Item(decompress(item.raw, _ZSTD), True, lambda raw: item.write(compress(raw, _ZSTD)))


def _read_metadata(path: Path) -> tuple[list[str], str]:
    """Return the file names and the compression mode: "file", "message" or "" for none."""
    from ruamel.yaml import YAML

    information = YAML(typ="safe").load(path.read_text(encoding="utf-8"))["rosbag2_bagfile_information"]
    mode = str(information.get("compression_mode") or "").lower()
    return [PurePath(name).name for name in information["relative_file_paths"]], "" if mode == "none" else mode


def _write_bytes(path: Path, raw: bytes) -> None:
    path.write_bytes(raw)

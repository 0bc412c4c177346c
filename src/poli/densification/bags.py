"""Densify the clouds of one topic of a bag. All other messages are copied byte for byte.

One pass in bag order, with a bounded number of messages in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from poli.configs import DensifyConfig
from poli.densification import resume
from poli.densification.densify import densify_records
from poli.densification.resume import Densified, Engine, Step, Tally
from poli.errors import FormatError
from poli.io.datasets.bag_copy import Item, copy_of
from poli.io.datasets.bags import CLOUD, choose_topic, damage, open_reader
from poli.io.messages import LIVOX, decode_livox, encode_livox, records_of_cloud

_END = Item(b"", False, lambda raw: None)


class Bag(NamedTuple):
    """A checked bag to densify."""

    path: Path
    topic: str
    clouds: int  # of the topic
    msgtype: str = CLOUD


def look_into_bag(path: Path, out: Path, topic: str | None = None) -> Bag:
    """Choose the topic of a bag, and check the name of the output."""
    resume.check_apart(path, out)
    if path.is_file() and out.suffix != path.suffix:
        raise FormatError(f"{out}: the input is a {path.suffix} file; give the output the same ending")
    if path.is_dir() and out.suffix in (".bag", ".db3", ".mcap"):
        raise FormatError(f"{out}: the input is a folder, so the output will be one; give a name without {out.suffix}")
    with closing(open_reader(path)) as reader:
        chosen = choose_topic(reader, path, topic)
        connections = [c for c in reader.connections if c.topic == chosen]
        return Bag(path, chosen, sum(c.msgcount for c in connections), connections[0].msgtype)


def densify_bag(
    bag: Bag, out: Path, config: DensifyConfig, engine: Engine, resumable: bool = True, overwrite: bool = False
) -> Generator[Tally, None, None]:
    """Densify a bag, and yield the progress after every cloud.

    If not `resumable`, no second copy of the clouds is kept, and a killed run has to start over.
    """
    if out.exists() and not overwrite:
        raise FormatError(f"{out}: already exists; remove it first, or give another name")
    if out.is_dir() and any(out.iterdir()) and not (out / "metadata.yaml").is_file():
        raise FormatError(f"{out}: is a folder but not a bag; give another name")
    files = [bag.path] if bag.path.is_file() else sorted(p for p in bag.path.iterdir() if p.is_file())
    states = [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]  # to detect changes
    about = resume.describe_run(bag.path, config, topic=bag.topic, files=states)
    work = partial(densify_message, config=config, ros2=bag.path.suffix != ".bag", msgtype=bag.msgtype)
    yield from resume.run_steps(out, about, partial(_steps, bag, resumable), work, engine, overwrite, resumable)


def _steps(bag: Bag, resumable: bool, new: Path) -> Iterator[Step | None]:
    resume.remove(new)
    number = 0
    with closing(copy_of(bag.path, new, bag.topic)) as items:
        while True:
            with damage(bag.path, "cannot be read to its end"):
                item = next(items, _END)
            if item is _END:
                break
            if item is None:
                yield None
            elif not item.cloud:
                yield Step(finish=partial(_write, bag, item, None), size=len(item.raw))
            else:
                part = new.with_name(f"{number:08d}.part")
                kept = resume.read_part(part)
                if kept is not None:
                    yield Step(kept=True, finish=partial(_write, bag, item._replace(raw=kept), None), size=len(kept))
                else:
                    where = f"{bag.path}: {bag.topic}, message {number}"
                    yield Step((item.raw, where), finish=partial(_write, bag, item, part if resumable else None))
                number += 1
    if number != bag.clouds:
        raise FormatError(
            f"{bag.path}: expected {bag.clouds} messages of {bag.topic}, found {number}; "
            "the bag is truncated or needs to be reindexed"
        )


def _write(bag: Bag, item: Item, part: Path | None, found: Densified | None) -> None:
    """Write an item, or the cloud that replaces it, which is kept as `part` until the bag is complete."""
    raw = item.raw if found is None else found.raw
    if part is not None:
        resume.write_part(part, raw)
    with damage(bag.path, "cannot be copied"):
        item.write(raw)


# --- PointCloud2 and Livox messages. Fields, frame and stamp are kept; samples differ from their parents only in x, y, z.


def densify_message(job: tuple[bytes, str], config: DensifyConfig, ros2: bool, msgtype: str = CLOUD) -> Densified:
    """Densify a serialized message. `job` is the message and its name in errors. The result is always a cloud of one row."""
    raw, where = job
    livox, store = msgtype in LIVOX, _typestore(ros2)
    cloud: Any
    try:
        if livox:
            cloud = decode_livox(raw, ros2)
        else:
            cloud = store.deserialize_cdr(raw, CLOUD) if ros2 else store.deserialize_ros1(raw, CLOUD)
    except Exception as error:  # rosbags, struct and numpy raise many kinds
        kind = "Livox message" if livox else "PointCloud2"
        raise FormatError(f"{where}: not a readable {kind} ({type(error).__name__}: {str(error)[:120]})") from None
    before = len(cloud.records) if livox else cloud.height * cloud.width
    if not before:
        return Densified(0, 0, raw=bytes(raw))
    if livox:
        dense, why = densify_records(np.ascontiguousarray(cloud.records), config, where)
        return Densified(before, len(dense), why, encode_livox(cloud, dense))
    after, why = densify_cloud(cloud, config, where)
    written = store.serialize_cdr(cloud, CLOUD) if ros2 else store.serialize_ros1(cloud, CLOUD)
    return Densified(before, after, why, bytes(written))


def densify_cloud(
    cloud: Any, config: DensifyConfig, where: str, as_data: Callable[[np.ndarray], Any] = lambda data: data
) -> tuple[int, str]:
    """Densify a message in place. Return its number of points, and the reason if no points were added.

    `as_data` converts (B,) uint8 to the type of `cloud.data`.
    """
    dense, why = densify_records(records_of_cloud(cloud, where), config, where)
    cloud.height, cloud.width = 1, len(dense)
    cloud.row_step = len(dense) * cloud.point_step
    cloud.data = as_data(dense.view(np.uint8))
    return len(dense), why


@lru_cache(maxsize=2)
def _typestore(ros2: bool) -> Any:
    """Return the type store for ROS 1 or 2. PointCloud2 is the same message in all releases of each."""
    from rosbags.typesys import Stores, get_typestore

    return get_typestore(Stores.LATEST if ros2 else Stores.ROS1_NOETIC)

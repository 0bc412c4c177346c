"""Bags written by `poli densify`, read without rosbags: everything except the clouds is kept, byte by byte."""

import shutil
import sqlite3
import struct
import subprocess
from collections import defaultdict

import pytest
from mcap.reader import SeekingReader
from mcap.records import Chunk, DataEnd, Message, MessageIndex
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType, Writer
from test_densify_bags import check_clouds, make, run

from plain_rosbag1 import chunks_of, read_rosbag1
from poli.errors import FormatError
from tiny_bags import CLOUD, STAMP, STORES, TEXT, cloud, contents, write_bag

_ROSBAG = shutil.which("rosbag")


@pytest.mark.parametrize("compressed", [False, "bz2", "lz4"])
def test_ros1_bags_read_by_a_plain_reader(tmp_path, compressed):
    path, _ = make(tmp_path, "ros1", compressed=compressed)
    out = tmp_path / "dense.bag"
    run(path, out, "--voxel", 0)
    (connections, before), (copied, after) = read_rosbag1(path), read_rosbag1(out)
    assert connections == copied
    assert len(before) == len(after) == 12
    points = next(number for number, fields in connections.items() if fields["topic"] == b"/points")
    for (number, time, old), (number_after, time_after, new) in zip(before, after, strict=True):
        assert (number, time) == (number_after, time_after)
        assert (old == new) == (number != points)
    assert {name for name, _ in chunks_of(out)} == {compressed or "none"}


def test_ros1_reads_the_lz4_frames(tmp_path):
    """roslz4, the decoder of ROS 1, refuses frames with any other flags: ROSLZ4_DATA_ERROR."""
    path, _ = make(tmp_path, "ros1", compressed="lz4", points=3000)  # 768 kB per densified cloud: several chunks and blocks
    run(path, tmp_path / "dense.bag", "--voxel", 0)
    chunks = chunks_of(tmp_path / "dense.bag")
    assert len(chunks) > 1
    for _, frame in chunks:
        magic, flags, block = struct.unpack_from("<IBB", frame)
        assert magic == 0x184D2204
        assert (
            flags == 0b01_1_0_0_1_0_0
        )  # version 1, independent blocks, no checksums of them, no size, a checksum of all, no dictionary
        assert block & 0b1000_1111 == 0
        assert 4 <= block >> 4 <= 7
        end, _ = struct.unpack("<II", frame[-8:])  # of the blocks; then the checksum
        assert end == 0


@pytest.mark.parametrize("version", [8, 9])
def test_databases_read_by_sqlite(tmp_path, version):
    path, data = make(tmp_path, "sqlite3", version=version)
    with sqlite3.connect(data) as database:  # a table, an index and a column that no ROS 2 release has
        database.execute("CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT, raw BLOB)")
        database.execute("INSERT INTO notes VALUES (7, 'näh', x'00ff')")
        database.execute("CREATE INDEX notes_of ON notes (text)")
        database.execute("ALTER TABLE messages ADD COLUMN sent INTEGER DEFAULT 0")
        database.execute("UPDATE messages SET sent = timestamp - 5")
        database.execute("PRAGMA user_version = 12")
        database.execute("UPDATE messages SET id = id + 100")
    run(path, tmp_path / "dense", "--voxel", 0)
    assert (tmp_path / "dense" / "metadata.yaml").read_bytes() == (path / "metadata.yaml").read_bytes()
    before, after = (_database(folder / data.name) for folder in (path, tmp_path / "dense"))
    assert before.keys() == after.keys()
    assert len(before["messages"]) == 12
    for name in before.keys() - {"messages"}:
        assert before[name] == after[name], name
    for (*old, old_raw, old_sent), (*new, new_raw, new_sent) in zip(before["messages"], after["messages"], strict=True):
        assert (*old, old_sent) == (*new, new_sent)
        assert (old_raw == new_raw) == (old[1] != 1)  # topic 1 has the clouds


def test_databases_with_triggers_and_folders_that_are_no_bags_are_refused(tmp_path):
    path, data = make(tmp_path, "sqlite3", clouds=1)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear all")
    with pytest.raises(FormatError, match="home: is a folder but not a bag"):
        run(path, tmp_path / "home", "--overwrite")
    with sqlite3.connect(data) as database:
        database.execute("CREATE TRIGGER t AFTER UPDATE ON messages BEGIN DELETE FROM topics; END")
    with pytest.raises(FormatError, match="the database has triggers"):
        run(path, tmp_path / "dense")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "home"]


def _database(path):
    """All rows by table, and the definitions of tables and indexes."""
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        made = database.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
        rows = {name: database.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for kind, name, _ in made if kind == "table"}
        return {"made": made, "version": database.execute("PRAGMA user_version").fetchall(), **rows}


@pytest.mark.parametrize("kind", ["sqlite3", "mcap"])
def test_split_bags_stay_split(tmp_path, kind):
    path = _split_bag(tmp_path, kind)
    run(path, tmp_path / "dense", "--voxel", 0)
    names = sorted(p.name for p in path.iterdir())
    assert len(names) == 3
    assert sorted(p.name for p in (tmp_path / "dense").iterdir()) == names
    assert (tmp_path / "dense" / "metadata.yaml").read_bytes() == (path / "metadata.yaml").read_bytes()
    before, after = contents(path), contents(tmp_path / "dense")
    assert before[:2] == after[:2]
    check_clouds(before[2], after[2])
    for name in names[:2]:
        assert contents(path / name)[1] == contents(tmp_path / "dense" / name)[1]


def _split_bag(tmp_path, kind):
    """Two bags as the two files of one bag."""
    from ruamel.yaml import YAML

    path, yaml = tmp_path / "split", YAML(typ="safe")
    path.mkdir()
    for number in range(2):
        data = write_bag(tmp_path / f"half{number}", kind, clouds=2, first=2 * number)
        shutil.move(data, path / data.name)
    told, other = (yaml.load(tmp_path / f"half{number}" / "metadata.yaml") for number in range(2))
    one, two = (told["rosbag2_bagfile_information"] for told in (told, other))
    one["relative_file_paths"] += two["relative_file_paths"]
    one["files"] += two["files"]
    one["message_count"] += two["message_count"]
    for topic, more in zip(one["topics_with_message_count"], two["topics_with_message_count"], strict=True):
        topic["message_count"] += more["message_count"]
    with (path / "metadata.yaml").open("w") as file:
        yaml.dump(told, file)
    return path


@pytest.mark.parametrize("kind", ["sqlite3", "mcap"])
def test_bags_with_file_compression(tmp_path, kind):
    from rosbags.rosbag2 import CompressionMode

    path, data = make(tmp_path, kind, compressed=CompressionMode.FILE)
    assert data.suffix == ".zstd"
    run(path, tmp_path / "dense", "--voxel", 0)
    assert sorted(p.name for p in (tmp_path / "dense").iterdir()) == [data.name, "metadata.yaml"]
    before, after = contents(path), contents(tmp_path / "dense")
    assert before[:2] == after[:2]
    check_clouds(before[2], after[2])


@pytest.mark.skipif(_ROSBAG is None, reason="the ROS 1 tools are not installed: apt install python3-rosbag")
@pytest.mark.parametrize("compression", ["none", "bz2", "lz4"])
def test_the_tools_of_ros_read_densified_bags(tmp_path, compression):
    def rosbag(*words):
        done = subprocess.run([_ROSBAG, *map(str, words)], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    path, out = make(tmp_path, "ros1", points=3000)[0], tmp_path / "dense.bag"
    if compression != "none":
        rosbag("compress", f"--{compression}", path)
    run(path, out, "--voxel", 0)
    assert {name for name, _ in chunks_of(path)} == {name for name, _ in chunks_of(out)} == {compression}
    assert rosbag("check", out) == rosbag("check", path)
    if compression != "none":  # every chunk is read and written again
        packed = read_rosbag1(out)
        rosbag("decompress", out)
        assert read_rosbag1(out)[1] == packed[1]


# --- mcap, checked with mcap's library


def _write_mcap(path, compression, chunked=True):
    """Features that rosbags never writes: publish times, sequence numbers, attachments, metadata, and other compressions."""
    store = STORES["mcap"]
    with path.open("wb") as file:
        writer = Writer(file, chunk_size=9000, compression=CompressionType[compression], use_chunking=chunked)
        writer.start("ros2", "a recorder")
        writer.add_metadata("vehicle", {"name": "näh", "wheels": "3"})
        schemas = {
            k: writer.register_schema(k, "ros2msg", store.generate_msgdef(k, ros_version=2)[0].encode()) for k in (CLOUD, TEXT)
        }
        about = {"offered_qos_profiles": "", "topic_type_hash": "RIHS01_1234"}
        points = writer.register_channel("/points", "cdr", schemas[CLOUD], about)
        text = writer.register_channel("/chatter", "cdr", schemas[TEXT], about)
        writer.register_channel("/nobody", "cdr", schemas[TEXT])
        for i in range(6):
            time = STAMP + i * 100_000_000
            writer.add_message(points, time, bytes(store.serialize_cdr(cloud("mcap", i), CLOUD)), time - 77, 3 * i)
            for j in range(2):
                raw = bytes(store.serialize_cdr(store.types[TEXT](f"{i} {j}"), TEXT))
                recorded = time + (9 - j if chunked else j)  # out of order where an index can restore the order
                writer.add_message(text, recorded, raw, time - 99 + j, 1000 + 2 * i + j)
            if i == 3:
                writer.add_attachment(STAMP, time, "camera.yaml", "text/yaml", bytes(range(256)))
        writer.add_attachment(0, 7, "empty", "", b"")
        writer.finish()
    return path


@pytest.mark.parametrize(("compression", "chunked"), [("NONE", True), ("LZ4", True), ("ZSTD", True), ("NONE", False)])
def test_mcap_files_read_by_the_mcap_library(tmp_path, compression, chunked):
    path, out = _write_mcap(tmp_path / "a.mcap", compression, chunked), tmp_path / "dense.mcap"
    run(path, out, "--voxel", 0)
    check_clouds(contents(path)[2], contents(out)[2])
    assert _records(path) == _records(out)
    before, after = _by_index(path), _by_index(out)
    assert before == after
    assert len(before[0]) == 18
    assert len(before[1]) == 2
    assert before[2] == [("vehicle", {"name": "näh", "wheels": "3"})]


def _records(path):
    """The records of each kind before the summary, in file order; clouds without their data. Checksums are verified."""
    found, clouds = defaultdict(list), set()
    with path.open("rb") as file:
        for record in StreamReader(file, validate_crcs=True).records:
            if isinstance(record, DataEnd):
                return found
            if getattr(record, "topic", None) == "/points":
                clouds.add(record.id)
            if isinstance(record, Message) and record.channel_id in clouds:
                record.data = b""
            if not isinstance(record, Chunk | MessageIndex):
                found[type(record)].append(record)
    raise AssertionError("no end of data")


def _by_index(path):
    """What an indexed reader finds: messages, attachments, metadata, statistics."""
    with path.open("rb") as file:
        reader = SeekingReader(file, validate_crcs=True)
        messages = [
            (schema, channel, m.sequence, m.log_time, m.publish_time, b"" if channel.topic == "/points" else m.data)
            for schema, channel, m in reader.iter_messages()
        ]
        attachments, metadata = list(reader.iter_attachments()), [(m.name, m.metadata) for m in reader.iter_metadata()]
        summary = reader.get_summary()
        summary.statistics.chunk_count = 0  # the chunks are others
        packed = {chunk.compression for chunk in summary.chunk_indexes}
        return messages, attachments, metadata, summary.statistics, summary.schemas, summary.channels, packed


def test_damaged_mcap_files_are_named(tmp_path):
    path = _write_mcap(tmp_path / "a.mcap", "NONE")
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"\x00\x00\x004 0\x00") + 3] ^= 1  # a letter of the text "4 0"
    path.write_bytes(whole)
    with pytest.raises(FormatError, match=r"a\.mcap: cannot be read to its end .*crc validation failed in Chunk.*`mcap recover`"):
        run(path, tmp_path / "dense.mcap")
    assert not (tmp_path / "dense.mcap").exists()

"""mcap files written by `poli densify`, checked with mcap's library: everything except the clouds is kept."""

from collections import defaultdict

import pytest
from mcap.reader import SeekingReader
from mcap.records import Chunk, DataEnd, Message, MessageIndex
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType, Writer
from test_densify_bags import check_clouds, run

from poli.errors import FormatError
from tiny_bags import CLOUD, STAMP, STORES, TEXT, cloud, contents


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

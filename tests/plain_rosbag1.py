"""A reader of ROS 1 bags that shares no code with rosbags: one record after the other (wiki.ros.org/Bags/Format/2.0)."""

import bz2
import struct

_MAGIC = b"#ROSBAG V2.0\n"


def read_rosbag1(path):
    """Connections by number, as the fields of their headers, and messages as (connection, time, bytes) in file order."""
    data = path.read_bytes()
    assert data.startswith(_MAGIC)
    connections, messages = {}, []
    for header, content in _records(data[len(_MAGIC) :]):
        if header["op"] == b"\x05":  # a chunk
            for inner, raw in _records(_plain(header["compression"], content)):
                _note(inner, raw, connections, messages)
        else:
            _note(header, content, connections, messages)
    return connections, messages


def chunks_of(path):
    """The chunks of a bag as they are stored: (compression, bytes)."""
    data = path.read_bytes()[len(_MAGIC) :]
    return [(header["compression"].decode(), content) for header, content in _records(data) if header["op"] == b"\x05"]


def _note(header, content, connections, messages):
    if header["op"] == b"\x07":
        connections[header["conn"]] = {"topic": header["topic"], **_fields(content)}
    elif header["op"] == b"\x02":
        messages.append((header["conn"], struct.unpack("<II", header["time"]), content))


def _plain(compression, content):
    if compression == b"lz4":
        import lz4.frame

        return lz4.frame.decompress(content)
    return bz2.decompress(content) if compression == b"bz2" else content


def _records(data):
    at = 0
    while at < len(data):
        header, at = _sized(data, at)
        content, at = _sized(data, at)
        yield _fields(header), content


def _fields(data):
    at, found = 0, {}
    while at < len(data):
        field, at = _sized(data, at)
        name, _, value = field.partition(b"=")
        found[name.decode()] = value
    return found


def _sized(data, at):
    (size,) = struct.unpack_from("<I", data, at)
    assert at + 4 + size <= len(data)
    return data[at + 4 : at + 4 + size], at + 4 + size

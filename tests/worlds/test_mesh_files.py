"""Mesh files: written meshes are read back, and damaged files are refused by name."""

import contextlib
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import box
from poli.errors import FormatError
from poli.worlds.shapes import Mesh, read_mesh


def ply(encoding: str, mesh: Mesh, index: str = "int", extra: bool = False) -> bytes:
    """`mesh` as a PLY file; with `extra`, other properties and elements surround the required ones."""
    order = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}[encoding]
    before = "element camera 1\nproperty short focus\n" if extra else ""
    around = ("property uchar flags\n", "property list uchar float texcoord\n") if extra else ("", "")
    header = (
        f"ply\nformat {encoding} 1.0\ncomment x\n{before}element vertex {len(mesh.vertices)}\n"
        "property double x\nproperty double y\nproperty double z\n"
        f"element face {len(mesh.faces)}\n{around[0]}property list uchar {index} vertex_indices\n{around[1]}end_header\n"
    ).encode()
    letter = {"int": "i", "uint": "I", "ushort": "H"}[index]
    if encoding == "ascii":
        rows = ["7"] if extra else []
        rows += [" ".join(map(repr, vertex)) for vertex in mesh.vertices.tolist()]
        rows += [f"{'1 ' if extra else ''}3 {a} {b} {c}{' 2 0.5 0.5' if extra else ''}" for a, b, c in mesh.faces]
        return header + "\n".join(rows).encode()
    body = struct.pack(order + "h", 7) if extra else b""
    body += mesh.vertices.astype(order + "f8").tobytes()
    for face in mesh.faces:
        body += (b"\1" if extra else b"") + struct.pack(f"{order}B3{letter}", 3, *face)
        body += struct.pack(order + "B2f", 2, 0.5, 0.5) if extra else b""
    return header + body


@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize("index", ["int", "uint", "ushort"])
@pytest.mark.parametrize("encoding", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_ply_meshes_are_read_back(tmp_path, encoding: str, index: str, extra: bool) -> None:
    path = tmp_path / "box.ply"
    path.write_bytes(ply(encoding, box(), index, extra))
    mesh = read_mesh(path)
    assert np.array_equal(mesh.vertices, box().vertices)
    assert np.array_equal(mesh.faces, box().faces)


@pytest.mark.parametrize("encoding", ["ascii", "binary_little_endian"])
def test_polygons_become_fans(tmp_path, encoding: str) -> None:
    head = f"ply\nformat {encoding} 1.0\nelement vertex 5\nproperty float x\nproperty float y\nproperty float z\n"
    head += "element face 2\nproperty list uchar int vertex_index\nend_header\n"
    corners = np.array([[0, 0, 0], [1, 0, 0], [2, 1, 0], [1, 2, 0], [0, 1, 0]], "<f4")
    if encoding == "ascii":
        body = "\n".join(" ".join(map(str, corner)) for corner in corners.tolist()).encode() + b"\n5 0 1 2 3 4\n3 0 1 2\n"
    else:
        body = corners.tobytes() + struct.pack("<B5iB3i", 5, 0, 1, 2, 3, 4, 3, 0, 1, 2)
    (tmp_path / "p.ply").write_bytes(head.encode() + body)
    assert read_mesh(tmp_path / "p.ply").faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 1, 2]]


def test_obj_meshes_are_read(tmp_path) -> None:
    text = "# a square\nv 0 0 0\nv 1 0 0 1.0\nvt 0 0\nvn 0 0 1\nv 1 1 0\nv 0 1 0\ng one\nf 1/1/1 2//1 3/1 \\\n 4\nf -4 -3 -2\n"
    (tmp_path / "square.OBJ").write_text(text)
    mesh = read_mesh(tmp_path / "square.OBJ")
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 2]]


XYZ = "property float x\nproperty float y\nproperty float z\n"
ASCII = (
    "ply\nformat ascii 1.0\nelement vertex {v}\n" + XYZ + "element face {f}\nproperty list uchar int vertex_indices\nend_header\n"
)
BINARY = ASCII.replace("ascii", "binary_little_endian")
THREE = np.eye(3, dtype="<f4").tobytes()
THREE_LINES = "0 0 0\n1 0 0\n0 1 0\n"
HOSTILE = {
    "empty.ply": b"",
    "points.ply": ("ply\nformat ascii 1.0\nelement vertex 3\n" + XYZ + "end_header\n" + THREE_LINES).encode(),
    "flat.ply": b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nelement face 1\n"
    b"property list uchar int vertex_indices\nend_header\n1\n3 0 0 0\n",
    "many_faces.ply": BINARY.format(v=3, f=10**12).encode() + THREE,
    "cut_face.ply": BINARY.format(v=3, f=1).encode() + THREE + struct.pack("<B2i", 3, 0, 1),
    "huge_list.ply": BINARY.replace("uchar", "uint").format(v=3, f=1).encode() + THREE + struct.pack("<I3i", 2**32 - 1, 0, 1, 2),
    "negative_list.ply": BINARY.replace("uchar", "int").format(v=3, f=1).encode() + THREE + struct.pack("<i3i", -3, 0, 1, 2),
    "beyond.ply": BINARY.format(v=3, f=1).encode() + THREE + struct.pack("<B3i", 3, 0, 1, 3),
    "wraps.ply": BINARY.replace("int vertex", "uint vertex").format(v=3, f=1).encode()
    + THREE
    + struct.pack("<B3I", 3, 0, 1, 2**32 - 2),
    "long_index.ply": (ASCII.format(v=3, f=1) + THREE_LINES + f"3 0 1 {2**70}\n").encode(),
    "nan.ply": (ASCII.format(v=3, f=1) + "0 0 nan\n1 0 0\n0 1 0\n3 0 1 2\n").encode(),
    "backwards.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 -4\n",
    "short.obj": b"v 0 0\nf 1 1 1\n",
    "bytes.obj": b"v \xff\xfe 1 2\nf \x00",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_mesh_files_are_refused_by_name_and_cheaply(tmp_path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=name):
            read_mesh(path)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("encoding", ["ascii", "binary_little_endian", "binary_big_endian"])
@given(cut=st.integers(0, 700), flip=st.integers(0, 700), value=st.integers(0, 255))
def test_damaged_ply_meshes_give_a_mesh_or_our_error(tmp_path_factory, encoding: str, cut: int, flip: int, value: int) -> None:
    data = bytearray(ply(encoding, box()))
    data[min(flip, len(data) - 1)] = value
    path = tmp_path_factory.mktemp("damaged") / "box.ply"
    path.write_bytes(data[: max(1, len(data) - cut)])
    with contextlib.suppress(FormatError):
        assert len(read_mesh(path).faces) > 0

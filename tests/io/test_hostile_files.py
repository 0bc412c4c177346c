"""Damaged, mislabeled and hostile files: a clear error that names the file, and no memory allocated for a header's promise."""

import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poli
from other_encodings import PCD, PLY, write_encoded
from poli import Ellipsoids, Scan
from poli.errors import FormatError

MANY = 10**12
PCD_HEADER = "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH {n}\nHEIGHT 1\nPOINTS {n}\nDATA {data}\n"
PLY_HEADER = "ply\nformat {data} 1.0\nelement vertex {n}\nproperty float x\nproperty float y\nproperty float z\nend_header\n"


def npy_header(count: int) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (count, 3)})
    return header.getvalue()


def npz_bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("points.npy", npy_header(MANY) + b"\0" * 240)
    return out.getvalue()


def las_promise(count: int) -> bytes:
    import laspy

    las = laspy.LasData(laspy.LasHeader(point_format=6, version="1.4"))
    las.x = las.y = las.z = np.arange(1.0, 4.0)
    out = io.BytesIO()
    las.write(out)
    data = bytearray(out.getvalue())
    data[247:255] = count.to_bytes(8, "little")  # the number of point records of a LAS 1.4 header
    return bytes(data)


HOSTILE = {
    "promise.pcd": (PCD_HEADER.format(n=MANY, data="binary") + "x" * 100).encode(),
    "promise_ascii.pcd": (PCD_HEADER.format(n=MANY, data="ascii") + "1 2 3\n").encode(),
    "promise_packed.pcd": PCD_HEADER.format(n=300_000_000, data="binary_compressed").encode()
    + np.array([16, 3_600_000_000], "<u4").tobytes()
    + b"\0" * 16,
    "promise.ply": (PLY_HEADER.format(n=MANY, data="binary_little_endian") + "x" * 100).encode(),
    "promise_ascii.ply": (PLY_HEADER.format(n=MANY, data="ascii") + "1 2 3\n").encode(),
    "negative.ply": PLY_HEADER.format(n=-5, data="ascii").encode(),
    "promise.npy": npy_header(MANY) + b"\0" * 240,
    "overflow.npy": npy_header(2**62) + b"\0" * 240,
    "promise.npz": npz_bomb(),
    "promise.las": las_promise(MANY),
    "endless_lines.ply": b"ply\nformat ascii 1.0\nelement a 999999999999\nelement vertex 0\nproperty float x\nend_header\n",
    "stamp.npz": b"",
    "endless_header.ply": b"ply\nformat ascii 1.0\n" + b"comment nothing\n" * 100_000,
    "endless_line.ply": b"ply\nformat ascii 1.0\ncomment " + b"x" * 5_000_000,
    "endless_line.pcd": b"# .PCD v0.7\n" + b"F" * 5_000_000,
    "two_x.ply": b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float x\nend_header\n1 2\n",
    "no_z.ply": b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nend_header\n1 2\n",
    "no_vertex.ply": b"ply\nformat ascii 1.0\nelement face 0\nend_header\n",
    "strange_type.pcd": PCD_HEADER.format(n=1, data="binary").replace("F F F", "F F Q").encode() + b"\0" * 12,
    "size_three.pcd": PCD_HEADER.format(n=1, data="binary").replace("4 4 4", "4 4 3").encode() + b"\0" * 12,
    "huge_count.pcd": PCD_HEADER.format(n=1, data="binary").replace("COUNT 1 1 1", f"COUNT 1 1 {MANY}").encode() + b"\0" * 12,
    "words.txt": b"these are\nnot numbers\n",
    "binary.csv": bytes(range(256)) * 10,
    "ragged.csv": b"x,y,z\n1,2,3\n4,5\n",
    "two_columns.xyz": b"1 2\n3 4\n",
    "cut.bin": b"\0" * 30,
    "noise.bin": np.random.default_rng(0).bytes(16_000),
    "pickled.npy": b"",  # filled below
    "shape.npy": b"",
    "empty.pcd": b"",
    "empty.bin": b"",
}


def fill() -> None:
    for name, array, allow in (("pickled.npy", np.array([{"a": 1}], dtype=object), True), ("shape.npy", np.zeros((4, 7)), False)):
        out = io.BytesIO()
        np.save(out, array, allow_pickle=allow)
        HOSTILE[name] = out.getvalue()

    out = io.BytesIO()
    np.savez(out, points=np.ones((2, 3)), stamp=np.array([1.0, 2.0]))
    HOSTILE["stamp.npz"] = out.getvalue()


fill()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_clear_error_and_no_memory_allocated(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=name.replace(".", r"\.")):
            poli.read(path)
        assert tracemalloc.get_traced_memory()[1] < 64e6
    finally:
        tracemalloc.stop()


def test_a_zip_that_inflates_without_end_is_refused(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("points.npy", "w", force_zip64=True) as member:
        member.write(npy_header(50_000_000))
        for _ in range(320):
            member.write(b"\0" * 1_000_000)
    tracemalloc.start()
    with pytest.raises(FormatError, match="inflate"):
        poli.read(path)
    assert tracemalloc.get_traced_memory()[1] < 64e6
    tracemalloc.stop()


POINTS = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
LAS_STEP = 1e-3  # meters: LAS coordinates are integer multiples of a step; those of all other formats are exact


class Files(dict):
    """Contents by name, with a short repr so that a failing test does not print pages of bytes."""

    folder: Path

    def __repr__(self) -> str:
        return f"files {sorted(self)}"


def sound_files(folder) -> Files:
    scan = Scan(POINTS, {"intensity": np.arange(50, dtype=np.float32)})
    for name in ("a.bin", "a.npy", "a.npz", "a.csv", "a.xyz", "a.las", "a.laz"):
        poli.write(scan.keep() if name.endswith(("las", "laz")) else scan, folder / name)
    for ending, encodings in ((".pcd", PCD), (".ply", PLY)):
        for encoding in encodings:
            write_encoded(folder / f"{encoding}{ending}", scan, encoding)
    files = Files({p.name: p.read_bytes() for p in folder.iterdir()})
    files.folder = folder
    return files


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return sound_files(tmp_path_factory.mktemp("sound"))


def read_or_refuse(path) -> Scan | None:
    """Return the scan, or None if an error named the file; anything else that is raised fails the test."""
    try:
        return poli.read(path)
    except FormatError as error:
        if path.name not in str(error):
            raise
        return None


@settings(max_examples=150)
@given(data=st.data())
def test_truncated_files_never_give_a_wrong_scan(sound, tmp_path_factory, data):
    """A truncated file is refused; only formats without a point count in the header may return a shorter scan."""
    name = data.draw(st.sampled_from(sorted(sound)))
    whole = sound[name]
    cut = data.draw(st.integers(0, len(whole) - 1))
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(whole[:cut])
    scan = read_or_refuse(path)
    if scan is None:
        return
    if name.endswith((".bin", ".csv", ".xyz")):
        assert len(scan) <= 50
        certain = len(scan) if name.endswith(".bin") else len(scan) - 1  # a cut may split the last number of a text file
        np.testing.assert_allclose(scan.points[:certain], POINTS[:certain], atol=LAS_STEP)
    else:  # only the last line feed, or bytes after the points, were cut off
        np.testing.assert_allclose(scan.points, POINTS, atol=LAS_STEP)


@settings(max_examples=150)
@given(data=st.data())
def test_flipped_bytes_never_crash(sound, tmp_path_factory, data):
    name = data.draw(st.sampled_from(sorted(sound)))
    damaged = bytearray(sound[name])
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, min(len(damaged), 400) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(bytes(damaged))
    read_or_refuse(path)


SOURCES = ["binary.pcd", "ascii.ply", "a.npy", "a.npz", "a.las"]
ENDINGS = [".bin", ".pcd", ".ply", ".csv", ".npy", ".npz", ".las"]


@pytest.mark.parametrize(("source", "ending"), [(s, e) for s in SOURCES for e in ENDINGS if not s.endswith(e)])
def test_mislabeled_files_are_recognized(sound, tmp_path, source, ending):
    path = tmp_path / f"mislabeled{ending}"
    path.write_bytes(sound[source])
    kind = source.rpartition(".")[2]
    with pytest.raises(FormatError, match=rf"mislabeled\{ending}: .*{kind} file.*format='{kind}'"):
        poli.read(path)
    assert len(poli.read(path, format=kind)) == 50  # the remedy that the message names


@pytest.mark.parametrize("source", SOURCES)
def test_correctly_labeled_files_are_read(sound, source):
    assert len(poli.read(sound.folder / source)) == 50


def test_the_format_can_be_given(sound, tmp_path):
    path = tmp_path / "odd_name.bin"
    path.write_bytes(sound["binary.pcd"])
    assert len(poli.read(path, format="pcd")) == 50
    with pytest.raises(FormatError, match="unknown format"):
        poli.read(path, format="pdf")


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        poli.read(tmp_path / "a.pcd")
    with pytest.raises(FormatError, match="folder"):
        poli.read(tmp_path)


def test_a_damaged_field_is_refused(tmp_path):
    path = tmp_path / "field.npz"
    Ellipsoids(np.zeros((4, 3)), np.tile(np.eye(3), (4, 1, 1))).save(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FormatError, match=r"field\.npz"):
        Ellipsoids.load(path)

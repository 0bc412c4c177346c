"""Damaged and mislabeled files: a clear error that names the file."""

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poli
from other_encodings import PCD, PLY, write_encoded
from poli import Scan
from poli.errors import FormatError

PCD_HEADER = "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 1\nHEIGHT 1\nPOINTS 1\nDATA binary\n"


def numpy_file(write, *arrays, **options) -> bytes:
    out = io.BytesIO()
    write(out, *arrays, **options)
    return out.getvalue()


HOSTILE = {
    "two_x.ply": b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float x\nend_header\n1 2\n",
    "no_z.ply": b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nend_header\n1 2\n",
    "no_vertex.ply": b"ply\nformat ascii 1.0\nelement face 0\nend_header\n",
    "strange_type.pcd": PCD_HEADER.replace("F F F", "F F Q").encode() + b"\0" * 12,
    "size_three.pcd": PCD_HEADER.replace("4 4 4", "4 4 3").encode() + b"\0" * 12,
    "words.txt": b"these are\nnot numbers\n",
    "binary.csv": bytes(range(256)) * 10,
    "ragged.csv": b"x,y,z\n1,2,3\n4,5\n",
    "two_columns.xyz": b"1 2\n3 4\n",
    "cut.bin": b"\0" * 30,
    "noise.bin": np.random.default_rng(0).bytes(16_000),
    "pickled.npy": numpy_file(np.save, np.array([{"a": 1}], dtype=object), allow_pickle=True),
    "shape.npy": numpy_file(np.save, np.zeros((4, 7))),
    "stamp.npz": numpy_file(np.savez, points=np.ones((2, 3)), stamp=np.array([1.0, 2.0])),
    "empty.pcd": b"",
    "empty.bin": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_clear_error(name, tmp_path):
    """Files that claim or inflate to gigabytes are in `tests/fuzz`."""
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    with pytest.raises(FormatError, match=name.replace(".", r"\.")):
        poli.read(path)


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

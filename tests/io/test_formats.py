"""Every format: scans round-trip with their fields."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import poli
from oracles import seeds
from other_encodings import PLY, lzf, write_encoded
from poli import Scan
from poli.errors import FormatError
from poli.io.formats.pcd import decompress

PLY_TYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.float32, np.float64]
ALL_TYPES = [*PLY_TYPES, np.int64, np.uint64]


@st.composite
def scans(draw, types=ALL_TYPES, wide=True, names=("intensity", "ring", "time")):
    """A scan of 1 to 40 points without zero or non-finite returns, and fields of any type."""
    count = draw(st.integers(1, 40))
    precision = draw(st.sampled_from([np.float32, np.float64]))
    points = np.random.default_rng(draw(seeds)).standard_normal((count, 3)).astype(precision) * 50
    fields = {}
    for name in names:
        kind = np.dtype(draw(st.sampled_from(types)))
        shape = (count, draw(st.integers(2, 4))) if wide and draw(st.booleans()) else (count,)
        values = st.floats(allow_nan=False, allow_infinity=False, width=8 * kind.itemsize) if kind.kind == "f" else None
        fields[name] = draw(arrays.arrays(kind, shape, elements=values))
    return Scan(points, fields)


def assert_same(again: Scan, scan: Scan, types: bool = True) -> None:
    assert again.dropped.total == 0
    assert list(again.fields) == list(scan.fields)
    for mine, its in [(again.points, scan.points), *((again.fields[n], scan.fields[n]) for n in scan.fields)]:
        np.testing.assert_array_equal(mine.astype(its.dtype), its)
        if types:
            assert mine.dtype == its.dtype


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("formats")


@given(scan=scans(), encoding=st.sampled_from(["binary", "binary_compressed"]))
def test_pcd(folder, scan, encoding):
    write_encoded(folder / "a.pcd", scan, encoding)
    assert_same(poli.read(folder / "a.pcd"), scan)


@given(scan=scans(wide=False))
def test_pcd_ascii(folder, scan):
    write_encoded(folder / "a.pcd", scan, "ascii")
    assert_same(poli.read(folder / "a.pcd"), scan)


@given(scan=scans(PLY_TYPES, wide=False), encoding=st.sampled_from(PLY))
def test_ply(folder, scan, encoding):
    write_encoded(folder / "a.ply", scan, encoding)
    assert_same(poli.read(folder / "a.ply"), scan)


@given(scan=scans())
def test_npz(folder, scan):
    scan = Scan(scan.points, scan.fields, stamp=1_691_936_557_946_849_179)
    poli.write(scan, folder / "a.npz")
    again = poli.read(folder / "a.npz")
    assert_same(again, scan)
    assert again.stamp == scan.stamp


@given(scan=scans())
def test_npy(folder, scan):
    poli.write(scan, folder / "a.npy")
    assert_same(poli.read(folder / "a.npy"), scan)


@given(
    scan=scans([np.int32, np.int64, np.uint16, np.float32, np.float64], wide=False),
    ending=st.sampled_from([".xyz", ".csv", ".txt"]),
)
def test_text_preserves_every_value(folder, scan, ending):
    """Types widen to int64 and float64; cast back, the values are exact."""
    poli.write(scan, folder / f"a{ending}")
    assert_same(poli.read(folder / f"a{ending}"), scan, types=False)


@given(scan=scans([np.float32, np.uint16], wide=False, names=("intensity",)))
def test_kitti_bin(folder, scan):
    scan = Scan(scan.points.astype(np.float32), scan.fields)
    poli.write(scan, folder / "a.bin")
    assert_same(poli.read(folder / "a.bin"), scan, types=False)


def test_nuscenes_bin(folder, rng):
    scan = Scan(rng.standard_normal((9, 3)).astype(np.float32), {"intensity": np.arange(9.0), "ring": np.arange(9)})
    poli.write(scan, folder / "a.pcd.bin")
    assert (folder / "a.pcd.bin").stat().st_size == 9 * 20
    assert_same(poli.read(folder / "a.pcd.bin"), scan, types=False)


@given(scan=scans([np.uint16], wide=False, names=("intensity",)), ending=st.sampled_from([".las", ".laz"]))
def test_las(folder, scan, ending):
    """Coordinates are exact to a tenth of a millimeter."""
    fields = {**scan.fields, "gps_time": np.arange(1.0, len(scan) + 1), "ring": np.arange(len(scan), dtype=np.uint8) + np.uint8(1)}
    scan = Scan(scan.points, fields)
    poli.write(scan, folder / f"a{ending}")
    again = poli.read(folder / f"a{ending}")
    np.testing.assert_allclose(again.points, scan.points, atol=1e-4)
    for name in ("gps_time", "ring"):
        np.testing.assert_array_equal(again.fields[name], fields[name])
    if scan.fields["intensity"].any():
        np.testing.assert_array_equal(again.fields["intensity"], scan.fields["intensity"])


@given(data=st.binary(max_size=300), repeat=st.integers(1, 600))
def test_lzf_round_trip(data, repeat):
    raw = b"".join(bytes([byte]) * repeat for byte in data)
    assert decompress(np.frombuffer(lzf(raw), np.uint8), len(raw)).tobytes() == raw


def test_lzf_decodes_a_block_made_by_hand():
    """Literals 'abc', then a copy of 6 from 3 back, then a long copy of 9 + 2 from 1 back."""
    packed = np.frombuffer(bytes([2]) + b"abc" + bytes([(6 - 2) << 5, 2]) + bytes([7 << 5, 11 - 2 - 7, 0]), np.uint8)
    assert decompress(packed, 20).tobytes() == b"abcabcabc" + b"c" * 11


def test_bad_returns_are_dropped_and_counted(folder):
    values = np.array([[1, 2, 3, 9], [0, 0, 0, 1], [np.nan, 1, 1, 1], [4, 5, 6, 8]], np.float32)
    values.tofile(folder / "bad.bin")
    scan = poli.read(folder / "bad.bin")
    assert (scan.dropped.nonfinite, scan.dropped.zero) == (1, 1)
    np.testing.assert_array_equal(scan.fields["intensity"], [9, 8])


# --- files of other programs


def test_pcd_with_padding_and_comments(folder):
    header = "# .PCD v.7 - Point Cloud Data file format\nVERSION .7\n"
    header += "FIELDS x y z _ intensity\nSIZE 4 4 4 1 4\nTYPE F F F U F\nCOUNT 1 1 1 4 1\n"
    header += "WIDTH 2\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 2\nDATA binary\n"
    rows = b"".join(np.array([i, 2, 3], "<f4").tobytes() + b"\xff" * 4 + np.array([i], "<f4").tobytes() for i in (1, 2))
    (folder / "pad.pcd").write_bytes(header.encode() + rows)
    scan = poli.read(folder / "pad.pcd")
    assert list(scan.fields) == ["intensity"]
    np.testing.assert_array_equal(scan.points, [[1, 2, 3], [2, 2, 3]])


def test_ply_mesh_gives_its_vertices(folder):
    text = "ply\r\nformat ascii 1.0\r\nobj_info scanned\r\nelement vertex 3\r\n"
    text += "property float x\r\nproperty float y\r\nproperty float z\r\n"
    text += "element face 1\r\nproperty list uchar int vertex_indices\r\nend_header\r\n1 0 0\r\n0 1 0\r\n0 0 1\r\n3 0 1 2\r\n"
    (folder / "mesh.ply").write_bytes(text.encode())
    np.testing.assert_array_equal(poli.read(folder / "mesh.ply").points, np.eye(3))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1 2 3\n4 5 6\n", []),
        ("//X Y Z Intensity\n1 2 3 4\n", ["Intensity"]),
        ("# a comment about the file\n1;2;3;4;5\n", ["column_3", "column_4"]),
        ('"x","y","z","i"\n1,2,3,4\n', ["i"]),
        (",x,y,z\n0,1,2,3\n", ["column_0"]),
        ("\ufeffx,y,z,t\n1,2,3,1691936557946849179\n", ["t"]),
        ("1 2 3 7\n1.5 2.5 3.5 7.25\n", ["intensity"]),
    ],
)
def test_text_in_many_dialects(folder, text, names):
    (folder / "dialect.txt").write_text(text, encoding="utf-8")
    scan = poli.read(folder / "dialect.txt")
    assert list(scan.fields) == names
    assert scan.points[0].tolist() == [1, 2, 3]
    if names == ["t"]:
        assert scan.fields["t"][0] == 1691936557946849179


@pytest.mark.parametrize(
    "text",
    [
        "timestamp,px,py,pz\n100,1,2,3\n",
        "time [s],x [m],y [m],z [m]\n0.1,1,2,3\n",
        "id,easting,northing,height\n7,1,2,3\n",
        "t,x,y,z,n,n\n9,1,2,3,0,0\n",
        "x,y,z,label\n1,2,3,car\n",
        "x,y,z\n1,2,3,4\n",
    ],
)
def test_a_header_that_does_not_name_the_columns_is_refused(folder, text):
    """Guessing by position would take a time for a coordinate."""
    (folder / "header.csv").write_text(text)
    with pytest.raises(FormatError, match=r"must name each|text columns"):
        poli.read(folder / "header.csv")


def test_other_pcd_spellings(folder):
    padded = "VERSION .7\nFIELDS X Y _ Z XY\nSIZE 4 4 4 4 4\nTYPE F F F F F\nWIDTH 1\nHEIGHT 1\nDATA binary\n"
    (folder / "large.pcd").write_bytes(padded.encode() + np.array([1, 2, 99, 3, 7], "<f4").tobytes())
    scan = poli.read(folder / "large.pcd")
    assert scan.points.tolist() == [[1, 2, 3]]
    assert scan.fields["XY"].tolist() == [7]
    old = "VERSION .5\nCOLUMNS X Y Z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 1\nHEIGHT 1\nDATA ascii\n1 2 3\n"
    (folder / "old.pcd").write_text(old)
    np.testing.assert_array_equal(poli.read(folder / "old.pcd").points, [[1, 2, 3]])
    (folder / "odd.pcd").write_text(old.replace("HEIGHT 1", "HEIGHT 1\nPOINTS 2"))
    with pytest.raises(FormatError, match="WIDTH x HEIGHT"):
        poli.read(folder / "odd.pcd")


@pytest.mark.parametrize("ending", [".pcd", ".ply", ".npy", ".npz", ".csv", ".xyz", ".las"])
def test_a_scan_without_points(folder, ending):
    poli.write(np.zeros((0, 3)), folder / f"none{ending}")
    assert len(poli.read(folder / f"none{ending}")) == 0


@pytest.mark.parametrize(
    ("name", "format"), [("A.NPZ", None), ("A.NPY", None), ("a.dat", "npz"), ("a.dat", "npy"), ("a.dat", "ply")]
)
def test_names_that_the_writers_would_change(tmp_path, name, format):
    poli.write(np.ones((2, 3)), tmp_path / name, format=format)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert len(poli.read(tmp_path / name, format=format)) == 2


def test_long_names_and_folders(tmp_path):
    poli.write(np.ones((2, 3)), tmp_path / ("n" * 250 + ".ply"))
    with pytest.raises(FormatError, match="is a folder"):
        poli.write(np.ones((2, 3)), tmp_path, format="ply")


def test_half_precision_fields_survive_text(folder):
    poli.write(Scan(np.ones((2, 3)), {"i": np.array([0.5, 0.1], np.float16)}), folder / "half.csv")
    np.testing.assert_array_equal(poli.read(folder / "half.csv").fields["i"].astype(np.float16), np.array([0.5, 0.1], np.float16))


def test_big_endian_npy(folder):
    np.save(folder / "big.npy", np.arange(1, 13, dtype=">f8").reshape(4, 3))
    assert poli.read(folder / "big.npy").points[3].tolist() == [10, 11, 12]


# --- no silent loss


@pytest.mark.parametrize(
    ("name", "fields", "says"),
    [
        ("a.bin", {"ring": np.zeros(2, np.uint16)}, "intensity only, not 'ring'"),
        ("a.bin", {"intensity": np.array([1, 2**30 + 1])}, "'intensity'.*float32"),
        ("a.ply", {"stamp": np.zeros(2, np.int64)}, "PLY cannot hold field 'stamp'"),
        ("a.pcd", {"two words": np.zeros(2)}, "'two words'"),
        ("a.npz", {"points": np.zeros(2)}, "'points' is reserved"),
        ("a.pcd", {"_": np.zeros(2)}, "padding"),
        ("a.csv", {"n": np.zeros((2, 2)), "n_0": np.zeros(2)}, "both be written as 'n_0'"),
        ("a.las", {"intensity": np.array([0.5, 0.25], np.float32)}, "LAS.*field 'intensity'"),
        ("a.xxx", {}, r"a\.xxx: unknown"),
    ],
)
def test_fields_that_a_format_cannot_store_are_refused(folder, name, fields, says):
    (folder / name).unlink(missing_ok=True)
    with pytest.raises(FormatError, match=says):
        poli.write(Scan(np.ones((2, 3)), fields), folder / name)
    assert not (folder / name).exists()


def test_float32_files_refuse_coordinates_they_would_change(folder):
    with pytest.raises(FormatError, match="float32 would move a point"):
        poli.write(np.array([[500_000.123, 4_000_000.456, 1.0]]), folder / "utm.bin")


def test_las_refuses_points_that_are_not_finite(folder):
    with pytest.raises(FormatError, match="non-finite"):
        poli.write(np.array([[1.0, 2, 3], [np.nan, 0, 0]]), folder / "nan.las")


def test_headerless_files_refuse_an_empty_scan(folder):
    with pytest.raises(FormatError, match="without points"):
        poli.write(np.zeros((0, 3)), folder / "none.bin")


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary_files(tmp_path):
    path = tmp_path / "a.ply"
    poli.write(np.ones((2, 3)), path)
    before = path.read_bytes()
    with pytest.raises(FormatError):
        poli.write(Scan(np.ones((2, 3)), {"t": np.zeros(2, np.int64)}), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.ply"]


def test_writing_into_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FormatError, match="does not exist"):
        poli.write(np.ones((2, 3)), tmp_path / "nowhere" / "a.ply")

"""Shapes: meshes and their sampling, the polygoniser against a known sphere, procedural shapes, mesh files good and bad."""

import contextlib
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poli.data.shapes import Mesh, procedural_mesh, read_mesh
from poli.data.shapes.combine import union
from poli.data.shapes.implicit import ellipsoid, limb_distance, polygon_distance, triangle_distance
from poli.data.shapes.polygonise import outer_components, polygonise
from poli.errors import DegenerateError, FormatError, InputError

SIDES = np.array([1.0, 2.0, 3.0])


def box() -> Mesh:
    """A box from the origin to SIDES, two triangles a side."""
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]) * SIDES
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return Mesh(corners, np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]))


def assert_closed(mesh: Mesh) -> None:
    """Each edge belongs to two faces, which run along it in opposite directions."""
    faces = mesh.faces.astype(np.int64)
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    there = np.sort(edges[:, 0] * len(mesh.vertices) + edges[:, 1])
    back = np.sort(edges[:, 1] * len(mesh.vertices) + edges[:, 0])
    assert (np.diff(there) > 0).all()
    assert np.array_equal(there, back)


# ---- mesh


def test_box_is_closed_and_measured() -> None:
    assert_closed(box())
    assert box().volume == pytest.approx(6.0)
    assert box().areas.sum() == pytest.approx(22.0)


def test_normalized_mesh_has_its_centroid_at_the_origin_and_radius_one() -> None:
    mesh = Mesh(np.vstack([box().vertices, [[99.0, 0.0, 0.0]]]), box().faces).normalized()  # a stray vertex does not count
    centroid = mesh.areas @ mesh.vertices[mesh.faces].mean(axis=1) / mesh.areas.sum()
    np.testing.assert_allclose(centroid, 0.0, atol=1e-12)
    assert np.linalg.norm(mesh.vertices[:8], axis=1).max() == pytest.approx(1.0)


def test_samples_are_uniform_by_area_with_unit_normals(rng: np.random.Generator) -> None:
    points, normals = box().sample(60_000, rng)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0)
    axis = np.abs(normals).argmax(axis=1)
    outside = np.take_along_axis(normals, axis[:, None], 1)[:, 0] > 0
    on_side = np.take_along_axis(points, axis[:, None], 1)[:, 0]
    np.testing.assert_allclose(on_side, np.where(outside, SIDES[axis], 0.0), atol=1e-12)
    # Each side in 4 x 4 equal cells: the counts against what their areas give, by chi squared.
    counts, expected = [], []
    for side in range(3):
        others = [k for k in range(3) if k != side]
        for is_far in (False, True):
            chosen = points[(axis == side) & (outside == is_far)][:, others] / SIDES[others]
            counts.append(np.histogram2d(*chosen.T, bins=4, range=[[0, 1], [0, 1]])[0].ravel())
            expected.append(np.full(16, 60_000 * np.prod(SIDES[others]) / 22.0 / 16))
    chi_squared = ((np.concatenate(counts) - np.concatenate(expected)) ** 2 / np.concatenate(expected)).sum()
    assert 50 < chi_squared < 150  # 95 degrees of freedom, standard deviation 14


def test_faces_without_area_are_never_drawn(rng: np.random.Generator) -> None:
    flat = [[0, 0, 0], [7, 7, 0], [3, 3, 3]]
    mesh = Mesh(box().vertices, np.concatenate([flat, box().faces, flat]))
    assert np.isfinite(mesh.sample(10_000, rng)[1]).all()
    assert mesh.sample(0, rng)[0].shape == (0, 3)


@pytest.mark.parametrize(
    ("vertices", "faces"),
    [
        (np.zeros((3, 2)), [[0, 1, 2]]),
        (np.full((3, 3), np.nan), [[0, 1, 2]]),
        (np.zeros((3, 3)), [[0, 1, 3]]),
        (np.zeros((3, 3)), [[0, 1, -1]]),
        (np.zeros((3, 3)), [[0, 1]]),
        (np.zeros((3, 3)), [[0.0, 1.0, 2.0]]),
    ],
)
def test_wrong_meshes_are_refused(vertices: np.ndarray, faces: list) -> None:
    with pytest.raises(InputError):
        Mesh(vertices, np.array(faces))


def test_a_mesh_without_surface_cannot_be_sampled(rng: np.random.Generator) -> None:
    with pytest.raises(DegenerateError):
        Mesh(np.zeros((3, 3)), np.array([[0, 1, 2]])).sample(1, rng)


# ---- fields and polygons


def test_sphere_is_close_to_the_analytic_one() -> None:
    mesh = polygonise(lambda points: np.linalg.norm(points - 0.1, axis=1) - 0.8, 64)
    spacing = 1.8 / 64
    assert_closed(mesh)
    assert len(mesh.vertices) - len(mesh.faces) / 2 == 2  # Euler: one sphere
    outward = mesh.vertices - 0.1
    assert np.abs(np.linalg.norm(outward, axis=1) - 0.8).max() < 0.1 * spacing
    assert mesh.volume == pytest.approx(4 / 3 * np.pi * 0.8**3, rel=5e-3)
    assert mesh.areas.sum() == pytest.approx(4 * np.pi * 0.8**2, rel=5e-3)
    to_face = mesh.vertices[mesh.faces].mean(axis=1) - 0.1
    aligned = np.einsum("fi,fi->f", mesh.area_vectors, to_face) / (mesh.areas * np.linalg.norm(to_face, axis=1))
    assert np.average(aligned, weights=mesh.areas) > 0.999


def test_a_field_that_leaves_the_cube_is_closed_with_a_lid() -> None:
    mesh = polygonise(lambda points: np.hypot(points[:, 0], points[:, 1]) - 0.5, 24)
    assert_closed(mesh)
    assert mesh.volume > 0


def test_the_surface_is_followed_where_the_field_exaggerates() -> None:
    exact = polygonise(lambda points: np.linalg.norm(points, axis=1) - 0.8, 40)
    louder = polygonise(lambda points: 3.0 * (np.linalg.norm(points, axis=1) - 0.8), 40)
    assert_closed(louder)
    assert louder.volume == pytest.approx(exact.volume, rel=0.01)


def test_crumbs_and_cavities_are_left_out() -> None:
    def hollow_with_crumb(points: np.ndarray) -> np.ndarray:
        crust = np.abs(np.linalg.norm(points, axis=1) - 0.7) - 0.1
        return np.minimum(crust, np.linalg.norm(points - 0.8, axis=1) - 0.05)

    mesh = outer_components(polygonise(hollow_with_crumb, 48))
    assert_closed(mesh)
    assert mesh.volume == pytest.approx(4 / 3 * np.pi * 0.8**3, rel=0.02)


def test_an_empty_field_is_degenerate() -> None:
    with pytest.raises(DegenerateError):
        polygonise(lambda points: np.ones(len(points)), 16)


def test_distances_agree_with_many_points_on_the_thing(rng: np.random.Generator) -> None:
    points = rng.uniform(-1.0, 1.0, (50, 3))
    weights = rng.dirichlet(np.ones(3), 200_000)
    triangle = rng.uniform(-1.0, 1.0, (3, 3))
    slow = np.array([np.linalg.norm(weights @ triangle - point, axis=1).min() for point in points])
    np.testing.assert_allclose(triangle_distance(points, triangle[None]), slow, atol=0.02)
    ends, share = rng.uniform(-1.0, 1.0, (1, 2, 3)), np.linspace(0.0, 1.0, 2001)[:, None]
    segment = (1.0 - share) * ends[0, 0] + share * ends[0, 1]
    slow = np.array([np.linalg.norm(segment - point, axis=1).min() - 0.1 for point in points])
    np.testing.assert_allclose(limb_distance(points, ends, np.full((1, 2), 0.1), 0.0), slow, atol=1e-3)
    square = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    beyond = np.abs(points[:, :2]) - 0.5
    exact = np.linalg.norm(np.maximum(beyond, 0.0), axis=1) + np.minimum(beyond.max(axis=1), 0.0)
    np.testing.assert_allclose(polygon_distance(np.ascontiguousarray(points[:, :2]), square), exact, atol=1e-12)


def test_a_blended_union_holds_both_and_flows() -> None:
    near, far = ellipsoid(np.full(3, 0.5)), ellipsoid(np.array([0.3, 0.3, 0.9]))
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (500, 3))
    blended, sharp = union([near, far], 0.1)(points), union([near, far])(points)
    assert (blended <= sharp).all()
    assert (blended >= sharp - 0.1 / 4).all()


# ---- procedural shapes


@pytest.mark.parametrize("seed", range(16))
def test_procedural_shapes_are_closed_outward_and_normalised(seed: int) -> None:
    mesh = procedural_mesh(seed, 40)
    assert_closed(mesh)
    assert mesh.volume > 0.0
    assert np.linalg.norm(mesh.vertices, axis=1).max() == pytest.approx(1.0)
    np.testing.assert_allclose(mesh.areas @ mesh.vertices[mesh.faces].mean(axis=1) / mesh.areas.sum(), 0.0, atol=1e-9)


def test_the_seed_decides_the_shape() -> None:
    first, again, other = procedural_mesh(3, 32), procedural_mesh(3, 32), procedural_mesh(4, 32)
    assert np.array_equal(first.vertices, again.vertices)
    assert np.array_equal(first.faces, again.faces)
    assert first.vertices.shape != other.vertices.shape or not np.allclose(first.vertices, other.vertices)


@pytest.mark.parametrize(("seed", "resolution"), [(-1, 32), (0.5, 32), ("a", 32), (0, 2)])
def test_wrong_arguments_are_refused(seed: int, resolution: int) -> None:
    with pytest.raises(InputError):
        procedural_mesh(seed, resolution)


# ---- files


def ply(encoding: str, mesh: Mesh, index: str = "int", extra: bool = False) -> bytes:
    """`mesh` as a PLY file; with `extra`, other properties and elements stand around what is wanted."""
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
    "empty.obj": b"",
    "points.ply": ("ply\nformat ascii 1.0\nelement vertex 3\n" + XYZ + "end_header\n" + THREE_LINES).encode(),
    "flat.ply": b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nelement face 1\n"
    b"property list uchar int vertex_indices\nend_header\n1\n3 0 0 0\n",
    "many_vertices.ply": BINARY.format(v=10**12, f=1).encode() + THREE,
    "many_faces.ply": BINARY.format(v=3, f=10**12).encode() + THREE,
    "many_faces_ascii.ply": (ASCII.format(v=3, f=10**12) + THREE_LINES + "3 0 1 2\n").encode(),
    "no_faces.ply": BINARY.format(v=3, f=0).encode() + THREE,
    "cut_face.ply": BINARY.format(v=3, f=1).encode() + THREE + struct.pack("<B2i", 3, 0, 1),
    "cut_line.ply": (ASCII.format(v=3, f=1) + THREE_LINES + "3 0 1\n").encode(),
    "huge_list.ply": BINARY.replace("uchar", "uint").format(v=3, f=1).encode() + THREE + struct.pack("<I3i", 2**32 - 1, 0, 1, 2),
    "negative_list.ply": BINARY.replace("uchar", "int").format(v=3, f=1).encode() + THREE + struct.pack("<i3i", -3, 0, 1, 2),
    "huge_list_ascii.ply": (ASCII.format(v=3, f=1) + THREE_LINES + "999999999999 0 1 2\n").encode(),
    "two_corners.ply": (ASCII.format(v=3, f=1) + THREE_LINES + "2 0 1\n").encode(),
    "beyond.ply": BINARY.format(v=3, f=1).encode() + THREE + struct.pack("<B3i", 3, 0, 1, 3),
    "below.ply": BINARY.format(v=3, f=1).encode() + THREE + struct.pack("<B3i", 3, 0, 1, -1),
    "wraps.ply": BINARY.replace("int vertex", "uint vertex").format(v=3, f=1).encode()
    + THREE
    + struct.pack("<B3I", 3, 0, 1, 2**32 - 2),
    "float_corners.ply": BINARY.replace("int vertex", "float vertex").format(v=3, f=1).encode()
    + THREE
    + struct.pack("<B3f", 3, 0, 1, 2),
    "float_count.ply": BINARY.replace("uchar", "float").format(v=3, f=1).encode() + THREE + struct.pack("<f3i", 3, 0, 1, 2),
    "long_index.ply": (ASCII.format(v=3, f=1) + THREE_LINES + f"3 0 1 {2**70}\n").encode(),
    "words.ply": (ASCII.format(v=3, f=1) + THREE_LINES + "3 a b c\n").encode(),
    "nan.ply": (ASCII.format(v=3, f=1) + "0 0 nan\n1 0 0\n0 1 0\n3 0 1 2\n").encode(),
    "nan.obj": b"v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n",
    "beyond.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n",
    "backwards.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 -4\n",
    "zero.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 0 1 2\n",
    "long.obj": f"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 {2**70}\n".encode(),
    "short.obj": b"v 0 0\nf 1 1 1\n",
    "two.obj": b"v 0 0 0\nv 1 0 0\nf 1 2\n",
    "words.obj": b"v a b c\n",
    "bytes.obj": b"v \xff\xfe 1 2\nf \x00",
    "mesh.stl": b"solid\n",
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


def test_a_missing_mesh_file_is_named(tmp_path) -> None:
    with pytest.raises(FormatError, match=r"none\.ply"):
        read_mesh(tmp_path / "none.ply")


@pytest.mark.parametrize("encoding", ["ascii", "binary_little_endian", "binary_big_endian"])
@given(cut=st.integers(0, 700), flip=st.integers(0, 700), value=st.integers(0, 255))
def test_damaged_ply_meshes_give_a_mesh_or_our_error(tmp_path_factory, encoding: str, cut: int, flip: int, value: int) -> None:
    data = bytearray(ply(encoding, box()))
    data[min(flip, len(data) - 1)] = value
    path = tmp_path_factory.mktemp("damaged") / "box.ply"
    path.write_bytes(data[: max(1, len(data) - cut)])
    with contextlib.suppress(FormatError):
        assert len(read_mesh(path).faces) > 0

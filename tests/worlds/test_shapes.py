"""Shapes: meshes and their sampling, the polygonizer against a known sphere, procedural shapes, mesh files good and bad."""

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from oracles import SIDES, box
from poli.errors import DegenerateError, InputError
from poli.worlds.shapes import Mesh, procedural_mesh
from poli.worlds.shapes.fields import limb_distance, polygon_distance, triangle_distance
from poli.worlds.shapes.mesh import components
from poli.worlds.shapes.polygonize import outer_components, polygonize


def assert_closed(mesh: Mesh) -> None:
    """Check that each edge belongs to two faces, which traverse it in opposite directions."""
    faces = mesh.faces.astype(np.int64)
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    there = np.sort(edges[:, 0] * len(mesh.vertices) + edges[:, 1])
    back = np.sort(edges[:, 1] * len(mesh.vertices) + edges[:, 0])
    assert (np.diff(there) > 0).all()
    assert np.array_equal(there, back)


# ---- mesh


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
    # Each side in 4 x 4 equal cells: the counts against those expected from the areas, by chi-square.
    counts, expected = [], []
    for side in range(3):
        others = [k for k in range(3) if k != side]
        for is_far in (False, True):
            chosen = points[(axis == side) & (outside == is_far)][:, others] / SIDES[others]
            counts.append(np.histogram2d(*chosen.T, bins=4, range=[[0, 1], [0, 1]])[0].ravel())
            expected.append(np.full(16, 60_000 * np.prod(SIDES[others]) / 22.0 / 16))
    chi_squared = ((np.concatenate(counts) - np.concatenate(expected)) ** 2 / np.concatenate(expected)).sum()
    assert 50 < chi_squared < 150  # 95 degrees of freedom, standard deviation 14


def test_degenerate_faces_are_never_sampled(rng: np.random.Generator) -> None:
    flat = [[0, 0, 0], [7, 7, 0], [3, 3, 3]]
    mesh = Mesh(box().vertices, np.concatenate([flat, box().faces, flat]))
    assert np.isfinite(mesh.sample(10_000, rng)[1]).all()
    assert mesh.sample(0, rng)[0].shape == (0, 3)


@pytest.mark.parametrize(
    ("vertices", "faces"),
    [
        (np.full((3, 3), np.nan), [[0, 1, 2]]),
        (np.zeros((3, 3)), [[0, 1, 3]]),
        (np.zeros((3, 3)), [[0, 1, -1]]),
    ],
)
def test_invalid_meshes_are_refused(vertices: np.ndarray, faces: list) -> None:
    with pytest.raises(InputError):
        Mesh(vertices, np.array(faces))


def test_a_mesh_without_surface_cannot_be_sampled(rng: np.random.Generator) -> None:
    with pytest.raises(DegenerateError):
        Mesh(np.zeros((3, 3)), np.array([[0, 1, 2]])).sample(1, rng)


# ---- fields and polygons


def test_sphere_is_close_to_the_analytic_one() -> None:
    mesh = polygonize(lambda points: np.linalg.norm(points - 0.1, axis=1) - 0.8, 64)
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


def test_fragments_and_cavities_are_removed() -> None:
    def hollow_with_crumb(points: np.ndarray) -> np.ndarray:
        crust = np.abs(np.linalg.norm(points, axis=1) - 0.7) - 0.1
        return np.minimum(crust, np.linalg.norm(points - 0.8, axis=1) - 0.05)

    mesh = outer_components(polygonize(hollow_with_crumb, 48))
    assert_closed(mesh)
    assert mesh.volume == pytest.approx(4 / 3 * np.pi * 0.8**3, rel=0.02)


def test_distances_agree_with_dense_surface_samples(rng: np.random.Generator) -> None:
    points = rng.uniform(-1.0, 1.0, (50, 3))
    weights = rng.dirichlet(np.ones(3), 50_000)
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


# ---- procedural shapes


@pytest.mark.parametrize("seed", range(8))
def test_procedural_shapes_are_closed_outward_and_normalized(seed: int) -> None:
    mesh = procedural_mesh(seed, 40)
    assert_closed(mesh)
    assert mesh.volume > 0.0
    assert np.linalg.norm(mesh.vertices, axis=1).max() == pytest.approx(1.0)
    np.testing.assert_allclose(mesh.areas @ mesh.vertices[mesh.faces].mean(axis=1) / mesh.areas.sum(), 0.0, atol=1e-9)


def test_the_seed_determines_the_shape() -> None:
    first, again, other = procedural_mesh(3, 32), procedural_mesh(3, 32), procedural_mesh(4, 32)
    assert np.array_equal(first.vertices, again.vertices)
    assert np.array_equal(first.faces, again.faces)
    assert first.vertices.shape != other.vertices.shape or not np.allclose(first.vertices, other.vertices)


@pytest.mark.parametrize("faces", [0, 1, 30, 80, 400])
def test_components_agree_with_scipy(faces: int) -> None:
    rng = np.random.default_rng(faces)
    corners = rng.integers(0, 200, (faces, 3))
    links = coo_matrix((np.ones(2 * faces), (corners[:, :2].ravel(), corners[:, 1:].ravel())), shape=(200, 200))
    count, theirs = connected_components(links, directed=False)
    ours = components(corners, 200)
    assert ours[0] == count
    np.testing.assert_array_equal(ours[1], theirs)

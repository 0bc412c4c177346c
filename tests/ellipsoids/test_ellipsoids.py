"""The field: validation, shapes, normals, motion, files."""

import numpy as np
import pytest
from hypothesis import given
from scipy.spatial.transform import Rotation

from oracles import random_covariances, random_field, random_pose, seeds
from poli import Ellipsoids
from poli.ellipsoids.symmetric3 import cholesky3, eigh3, thinnest
from poli.errors import InputError
from poli.io.ply import read_ply_element

# --- validation


@pytest.mark.parametrize(
    ("means", "covariances", "says"),
    [
        (np.zeros((2, 2)), np.zeros((2, 3, 3)), "means have shape"),
        (np.zeros((2, 3)), np.zeros((3, 3, 3)), r"covariances have shape \(3, 3, 3\)"),
        (np.array([[0.0, np.nan, 0.0]]), np.eye(3)[None], "means: 1 rows are not finite, the first is row 0"),
        (
            np.zeros((2, 3)),
            np.stack([np.eye(3), np.array([[1, 2, 0], [0, 1, 0], [0, 0, 1.0]])]),
            "not symmetric, the first is row 1",
        ),
        (np.zeros((1, 3)), np.diag([1.0, 1.0, -0.1])[None], "not positive semidefinite, the first is row 0"),
    ],
)
def test_invalid_input_is_refused_with_a_reason(means, covariances, says):
    with pytest.raises(InputError, match=says):
        Ellipsoids(means, covariances)


def test_a_field_cannot_be_changed_in_place(rng):
    field = random_field(rng)
    with pytest.raises(ValueError, match="read-only"):
        field.means[0] = 0


def test_a_field_is_independent_of_the_callers_arrays(rng):
    means, covariances = rng.standard_normal((4, 3)), random_covariances(rng, 4)
    field = Ellipsoids(means, covariances)
    before = field.means.copy(), field.covariances.copy()
    means[:], covariances[:] = np.nan, np.nan
    np.testing.assert_array_equal(field.means, before[0])
    np.testing.assert_array_equal(field.covariances, before[1])


def test_an_empty_field_works():
    field = Ellipsoids(np.zeros((0, 3)), np.zeros((0, 3, 3)))
    assert field.normals.shape == field.sample(5).shape == (0, 3)


# --- eigenvectors and factors


@given(seeds)
def test_eigh3_against_lapack(seed):
    C = random_covariances(np.random.default_rng(seed), 50, thinnest=1e-5)
    values, vectors = eigh3(C)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(C), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(np.linalg.det(vectors), 1.0, atol=1e-12)
    np.testing.assert_allclose(np.einsum("nij,nj,nkj->nik", vectors, values, vectors), C, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e150])
def test_eigh3_of_special_matrices(scale):
    C = scale * np.stack([np.zeros((3, 3)), np.eye(3), np.diag([3.0, 1.0, 2.0]), np.ones((3, 3)), np.diag([1.0, 1.0, 0.0])])
    values, vectors = eigh3(C)
    np.testing.assert_allclose(values / scale, np.linalg.eigvalsh(C / scale), atol=1e-15)
    np.testing.assert_allclose(vectors.swapaxes(1, 2) @ vectors, np.tile(np.eye(3), (5, 1, 1)), atol=1e-14)


def thinnest_of(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 3, 3) -> (N, 2), (N, 3)
    found = np.array([thinnest(C[0, 0], C[0, 1], C[0, 2], C[1, 1], C[1, 2], C[2, 2]) for C in matrices])
    return found[:, :2], found[:, 2:]


@given(seeds)
def test_the_thinnest_axis_equals_that_of_eigh3(seed):
    C = random_covariances(np.random.default_rng(seed), 50, thinnest=1e-5)
    values, axes = thinnest_of(C)
    known, vectors = eigh3(C)
    size = known[:, 2:]
    np.testing.assert_allclose(values / size, known[:, :2] / size, atol=1e-8)
    gap = (known[:, 1] - known[:, 0]) / known[:, 2]
    assert ((1.0 - np.abs(np.einsum("ij,ij->i", axes, vectors[:, :, 0]))) * gap**2 < 1e-14).all()


@pytest.mark.parametrize("scale", [1e-200, 1e-5, 1.0, 1e150])
def test_the_thinnest_axis_of_special_matrices(scale):
    turned = eigh3(np.array([[[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 3.0]]]))[1][0]
    kinds = [np.diag([1.0, 2.0, 2.0]), np.diag([2.0, 2.0, 1.0]), np.diag([1.0, 1.0, 5.0]), np.diag([0.0, 0.0, 1.0])]
    kinds += [turned @ C @ turned.T for C in kinds]
    C = scale * np.stack([np.zeros((3, 3)), np.eye(3), np.ones((3, 3)), *kinds])
    values, axes = thinnest_of(C)
    np.testing.assert_allclose(values / scale, np.linalg.eigvalsh(C / scale)[:, :2], atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(axes, axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose((C / scale) @ axes[:, :, None], (values[:, :1] / scale * axes)[:, :, None], atol=1e-7)


def test_cholesky3_of_flat_matrices_too(rng):
    C = random_covariances(rng, 30)
    np.testing.assert_allclose(cholesky3(C), np.linalg.cholesky(C), atol=1e-12)
    flat = np.stack([np.outer(v, v) for v in rng.standard_normal((30, 3))] + [np.zeros((3, 3))])
    L = cholesky3(flat)
    np.testing.assert_allclose(L @ L.swapaxes(1, 2), flat, atol=1e-12)


# --- shape


def test_axes_scales_and_shares_of_a_known_ellipsoid():
    field = Ellipsoids(np.zeros((1, 3)), np.diag([4.0, 0.01, 1.0])[None], viewpoint=np.array([0.0, 5.0, 1.0]))
    np.testing.assert_allclose(field.scales, [[0.1, 1.0, 2.0]])
    np.testing.assert_allclose(field.normals, [[0.0, 1.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose([field.linearity[0], field.planarity[0], field.sphericity[0]], [0.75, 0.2475, 0.0025])
    np.testing.assert_allclose(np.abs(field.axes[0][:, 2]), [1.0, 0.0, 0.0], atol=1e-12)


def test_normals_face_the_viewpoint(rng):
    field = random_field(rng, 200)
    towards = field.viewpoint - field.means
    assert (np.einsum("ij,ij->i", field.normals, towards) >= 0).all()
    centroid = field.means.mean(axis=0)
    outward = field.oriented_normals(centroid, away=True)
    assert (np.einsum("ij,ij->i", outward, field.means - centroid) >= 0).all()


def test_normals_of_needles_and_balls_do_not_depend_on_the_eigenvectors(rng):
    """Where the thinnest axis is ambiguous, the normal is the admissible direction closest to the viewpoint."""
    line = np.array([1.0, 1.0, 0.0]) / np.sqrt(2)
    covariances = np.stack([np.outer(line, line), np.eye(3), np.zeros((3, 3))])
    field = Ellipsoids(np.zeros((3, 3)), covariances, viewpoint=np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(field.normals, [[np.sqrt(0.5), -np.sqrt(0.5), 0], [1, 0, 0], [1, 0, 0]], atol=1e-9)
    T = random_pose(rng)
    np.testing.assert_allclose(field.transform(T).normals, field.normals @ T[:3, :3].T, atol=1e-9)


# --- motion


@given(seeds)
def test_transform_moves_everything_together(seed):
    """Proposition 1: means, covariances, normals, and quantities derived from them."""
    rng = np.random.default_rng(seed)
    field, T = random_field(rng), random_pose(rng)
    moved = field.transform(T)
    R, t = T[:3, :3], T[:3, 3]
    np.testing.assert_allclose(moved.means, field.means @ R.T + t, atol=1e-12)
    np.testing.assert_allclose(moved.covariances, R @ field.covariances @ R.T, atol=1e-12)
    np.testing.assert_allclose(moved.normals, field.normals @ R.T, atol=1e-7)
    np.testing.assert_allclose(moved.planarity, field.planarity, atol=1e-9)
    points = field.means + rng.standard_normal((len(field), 3))
    np.testing.assert_allclose(moved.log_likelihood(points @ R.T + t), field.log_likelihood(points), rtol=1e-7)
    np.testing.assert_allclose(moved.mahalanobis(points @ R.T + t), field.mahalanobis(points), rtol=1e-7)
    back = moved.transform(np.linalg.inv(T))
    np.testing.assert_allclose(back.means, field.means, atol=1e-10)
    np.testing.assert_allclose(back.viewpoint, field.viewpoint, atol=1e-10)


def test_select_keeps_rows_and_viewpoints(rng):
    field = Ellipsoids(rng.standard_normal((5, 3)), random_covariances(rng, 5), viewpoint=rng.standard_normal((5, 3)))
    some = field.select(np.array([3, 1]))
    np.testing.assert_array_equal(some.means, field.means[[3, 1]])
    np.testing.assert_allclose(some.normals, field.normals[[3, 1]])


def test_as_planes_and_floor(rng):
    field = random_field(rng)
    planes = field.as_planes()
    np.testing.assert_allclose(planes.eigenvalues, np.tile([1e-3, 1.0, 1.0], (len(field), 1)), atol=1e-12)
    np.testing.assert_allclose(np.abs(np.einsum("ij,ij->i", planes.normals, field.normals)), 1.0)
    np.testing.assert_allclose(field.with_floor(0.3).eigenvalues, field.eigenvalues + 0.09)


# --- files


def test_npz_round_trip_is_exact(rng, tmp_path):
    field = random_field(rng)
    field.save(tmp_path / "field.npz")
    field.save(tmp_path / "FIELD.NPZ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["FIELD.NPZ", "field.npz"]
    again = Ellipsoids.load(tmp_path / "FIELD.NPZ")
    for name in ("means", "covariances", "viewpoint"):
        np.testing.assert_array_equal(getattr(again, name), getattr(field, name))


def test_ply_round_trip_keeps_geometry_and_normals(rng, tmp_path):
    field = random_field(rng)
    field.write_ply(tmp_path / "field.ply")
    again = Ellipsoids.load(tmp_path / "field.ply")
    np.testing.assert_array_equal(again.covariances, field.covariances)
    np.testing.assert_allclose(again.normals, field.normals)


def test_splat_file_describes_the_same_gaussians(rng, tmp_path):
    """Read it as a splat viewer does: scales are logarithms, rotations (w, x, y, z), opacity a logit, colors a harmonic."""
    field = random_field(rng)
    field.write_splat(tmp_path / "splats.ply", opacity=0.7)
    splats = read_ply_element(tmp_path / "splats.ply")
    names = splats.dtype.names
    assert names[:9] == ("x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2")
    assert names[9:54] == tuple(f"f_rest_{i}" for i in range(45))
    assert names[54:] == ("opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3")
    assert all(splats.dtype[n] == np.float32 for n in names)
    q = np.stack([splats[f"rot_{i}"] for i in range(4)], axis=1).astype(float)
    R = Rotation.from_quat(q[:, [1, 2, 3, 0]]).as_matrix()
    scales = np.exp(np.stack([splats[f"scale_{i}"] for i in range(3)], axis=1).astype(float))
    rebuilt = np.einsum("nij,nj,nkj->nik", R, scales**2, R)
    np.testing.assert_allclose(rebuilt, field.covariances, atol=1e-5)
    np.testing.assert_allclose(1 / (1 + np.exp(-splats["opacity"])), 0.7, rtol=1e-6)
    color = 0.5 + 0.28209479177387814 * np.stack([splats[f"f_dc_{i}"] for i in range(3)], axis=1)
    np.testing.assert_allclose(color, 0.5 + 0.5 * field.normals, atol=1e-6)

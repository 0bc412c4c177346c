"""Curvature: against analytic surfaces, in fields and files, in the kernels against torch, and in training."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import poli
from oracles import random_pose
from poli.cli import app
from poli.ellipsoids import Ellipsoids
from poli.errors import FormatError, InputError
from poli.estimation.architecture import Architecture
from poli.estimation.model import Model, read_model
from poli.estimation.ordered_cloud import Viewpoint
from poli.io.ply import read_ply_element

torch = pytest.importorskip("torch")
from poli.train.config import StageConfig, TrainConfig, read_config  # noqa: E402
from poli.train.curvature import chords, residuals  # noqa: E402
from poli.train.grouping import GroupBatch  # noqa: E402
from poli.train.network import Network  # noqa: E402
from poli.train.network_input import group  # noqa: E402
from poli.train.trainer import train  # noqa: E402
from tiny_training import ARCHITECTURES, exported, tiny  # noqa: E402

SIGHT = Viewpoint(np.zeros(3), np.array([0.0, 0.0, 1.0]))
SMALL = [
    Architecture(curvature=6),
    replace(ARCHITECTURES[2], curvature=6),
    Architecture(curvature=6, curvature_wide=(20,)),
    replace(ARCHITECTURES[2], reach=10, size=0, curvature=6, curvature_wide=(7, 5)),
]


def sphere(count: int, radius: float, seed: int = 0) -> np.ndarray:
    points = np.random.default_rng(seed).standard_normal((count, 3))
    return radius * points / np.linalg.norm(points, axis=1, keepdims=True)


def made(architecture: Architecture, seed: int = 0) -> tuple[Network, Model]:
    """Return a random network and the model of its weights."""
    torch.manual_seed(seed)
    network = Network(architecture).eval()
    with torch.no_grad():
        network.maps["bend_out"].weight.normal_(0.0, 0.1)
    weights = {}
    for name in architecture.linear_shapes():
        for kind in ("weight", "bias"):
            weights[f"{name}.{kind}"] = getattr(network.maps[name.replace(".", "_")], kind).detach().numpy().copy()
    return network, Model("random", architecture, 1.0, weights, {})


@pytest.mark.parametrize("architecture", SMALL)
def test_kernels_compute_what_torch_computes(architecture):
    network, model = made(architecture)
    points = 3.0 * sphere(300, 1.0) * (1.0, 0.7, 0.5) + (7.0, 2.0, 1.0)
    found = model.estimate(points, SIGHT, curvature=True).quadrics
    with torch.no_grad():
        quadric, axes, radius = network.curved(GroupBatch.of([group(points, architecture, SIGHT)]))
    beta, S, r, normals = quadric.coefficients.numpy(), quadric.covariance.numpy(), radius.numpy(), axes[:, :, 0].double().numpy()
    sign = np.sign(np.einsum("ni,ni->n", normals, found[:, :3]))
    slope = beta[:, 1:3]
    W = np.sqrt(1.0 + (slope**2).sum(1))
    first = np.eye(2) + slope[:, :, None] * slope[:, None, :]
    second = beta[:, [[3, 4], [4, 5]]] / (W * r)[:, None, None]
    expected = np.sort(np.linalg.eigvals(np.linalg.solve(first, second)).real, axis=1)[:, ::-1]
    known = np.isfinite(found[:, 3])
    assert known.mean() > 0.9
    seen = np.where(sign[:, None] > 0, found[:, 3:5], -found[:, 4:2:-1])
    np.testing.assert_allclose(seen[known], expected[known], atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(sign * found[:, 10], beta[:, 0] * r, atol=1e-4)
    np.testing.assert_allclose(found[:, 11], (S[:, 0, 0] + quadric.rest.numpy() ** 2) * r**2, rtol=1e-3)
    np.testing.assert_allclose(found[:, 12], 0.5 * (S[:, 1, 1] + S[:, 2, 2]), rtol=1e-3)
    tilt = np.einsum("ni,nij->nj", found[:, 15:18], axes.double().numpy())[:, 1:]
    np.testing.assert_allclose(tilt, slope * sign[:, None], atol=1e-4)
    np.testing.assert_allclose(found[:, 14], quadric.higher.numpy() / r**2, rtol=1e-4)
    directions = found[known, 5:8]
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(np.einsum("ni,ni->n", directions, found[known, :3]), 0.0, atol=1e-5)


def test_a_sphere_bends_away_from_outside_and_towards_from_its_center():
    points = sphere(800, 2.0)
    for viewpoint, sign in ((np.zeros(3), 1.0), (100.0 * points, -1.0)):
        field = poli.estimate(points, model="objects", curvature=True, viewpoint=viewpoint)
        assert field.has_curvature
        np.testing.assert_allclose(np.median(field.mean_curvature), sign * 0.5, rtol=0.1)
        np.testing.assert_allclose(np.median(field.gaussian_curvature), 0.25, rtol=0.2)
        assert np.median(np.abs(field.shape_index - sign)) < 0.35
        assert (field.curvatures[:, 0] >= field.curvatures[:, 1]).all()


def test_curvature_has_the_unit_of_the_cloud():
    points = sphere(500, 1.0)
    field, large = (poli.estimate(scale * points, model="objects", curvature=True, warn=False) for scale in (1.0, 1000.0))
    np.testing.assert_allclose(1000.0 * large.curvatures, field.curvatures, atol=1e-3)
    np.testing.assert_allclose(large.surface_error(100.0), 1000.0 * field.surface_error(0.1), rtol=1e-3)


def test_a_cylinder_is_straight_along_its_axis_and_a_plane_everywhere():
    rng = np.random.default_rng(0)
    angle, z = rng.uniform(0.0, 2.0 * np.pi, 900), rng.uniform(-1.5, 1.5, 900)
    inner = np.abs(z) < 1.0
    field = poli.estimate(np.stack([0.5 * np.cos(angle), 0.5 * np.sin(angle), z], axis=1), model="objects", curvature=True).select(
        inner
    )
    bent = np.abs(field.curvatures)
    assert np.median(bent.max(axis=1)) == pytest.approx(2.0, rel=0.1)
    assert np.median(bent.min(axis=1)) < 0.2
    around = np.take_along_axis(field.curvature_directions, bent.argmax(axis=1)[:, None, None], axis=1)[:, 0]
    assert np.median(np.abs(around[:, 2])) < 0.15
    flat = poli.estimate(
        np.c_[rng.uniform(-1, 1, (500, 2)), np.zeros(500)], model="objects", curvature=True, viewpoint=np.array([0.0, 0.0, 5.0])
    )
    assert np.quantile(np.abs(flat.curvatures), 0.95) < 0.05


def test_normals_of_quadrics_are_better_on_a_sphere():
    points = sphere(400, 1.0)
    field = poli.estimate(points, model="objects", curvature=True, viewpoint=100.0 * points)
    cosines = (np.einsum("ni,ni->n", n, points).clip(-1.0, 1.0) for n in (field.normals, field.quadric_normals))
    flat, bent = (np.degrees(np.arccos(cosine)) for cosine in cosines)
    assert np.median(bent) < 0.3 * np.median(flat)
    assert bent.max() < 5.0


def test_errors_grow_with_the_distance_and_are_about_right():
    rng = np.random.default_rng(1)
    field = poli.estimate(sphere(500, 1.0), model="objects", curvature=True, viewpoint=np.zeros(3))
    near, far = field.surface_error(0.05), field.surface_error(0.3)
    assert (far > near).all()
    # Points of the sphere around each point, against the quadric there.
    tangent = np.cross(field.normals, rng.standard_normal((500, 3)))
    tangent *= 0.15 / np.linalg.norm(tangent, axis=1, keepdims=True)
    bent = field.second_order
    along = np.einsum("ni,nai->na", tangent, bent.directions)
    heights = bent.heights + (tangent * bent.slopes).sum(axis=1) + 0.5 * (along**2 * bent.curvatures).sum(axis=1)
    guess = field.means + tangent + heights[:, None] * field.normals
    error = np.abs(np.linalg.norm(guess, axis=1) - 1.0)
    flat = np.abs(np.linalg.norm(field.means + tangent, axis=1) - 1.0)
    assert np.median(error) < 0.1 * np.median(flat)
    assert np.quantile(error / field.surface_error(0.15), 0.95) < 2.0  # a sphere is smoother than most shapes


def test_fields_keep_curvature_when_moved_selected_saved_and_thickened(tmp_path):
    field = poli.estimate(sphere(200, 1.0), model="objects", curvature=True)
    T = random_pose(np.random.default_rng(0))
    moved = field.transform(T)
    np.testing.assert_array_equal(moved.curvatures, field.curvatures)
    np.testing.assert_allclose(moved.curvature_directions, field.curvature_directions @ T[:3, :3].T)
    np.testing.assert_array_equal(field.select(np.arange(5)).curvature_sigmas, field.curvature_sigmas[:5])
    np.testing.assert_array_equal(field.with_floor(0.1).as_planes().shape_index, field.shape_index)
    field.save(tmp_path / "field.npz")
    again = Ellipsoids.load(tmp_path / "field.npz")
    for ours, theirs in zip(field.second_order, again.second_order, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    field.write_ply(tmp_path / "field.ply")
    records = read_ply_element(tmp_path / "field.ply")
    np.testing.assert_array_equal(records["curvature_2"], field.curvatures[:, 1])
    assert not Ellipsoids.load(tmp_path / "field.ply").has_curvature


def test_curvature_is_estimated_only_if_asked_for(tmp_path):
    points = sphere(200, 10.0)
    assert not poli.estimate(points).has_curvature
    with pytest.raises(InputError, match="curvature=True"):
        _ = poli.estimate(points).curvatures
    with pytest.raises(InputError, match="PCA"):
        poli.estimate(points, model="pca", curvature=True)
    with pytest.raises(InputError, match="does not estimate it"):
        poli.estimate(points, model=exported(tmp_path, ARCHITECTURES[0]), curvature=True)
    poli.write(points, tmp_path / "ball.xyz")
    for words, expected in ((), False), (("--curvature",), True):
        out = tmp_path / "field.npz"
        assert CliRunner().invoke(app, ["estimate", str(tmp_path / "ball.xyz"), str(out), *words]).exit_code == 0
        assert Ellipsoids.load(out).has_curvature == expected


def test_damaged_curvature_in_a_file_is_refused(tmp_path):
    poli.estimate(sphere(100, 1.0), model="objects", curvature=True).save(tmp_path / "field.npz")
    arrays = dict(np.load(tmp_path / "field.npz"))
    np.savez(tmp_path / "bad.npz", **{**arrays, "second_order_sigmas": np.zeros((100, 3))})
    with pytest.raises(FormatError, match="second_order_sigmas"):
        Ellipsoids.load(tmp_path / "bad.npz")


def curving(folder: Path, steps: int) -> TrainConfig:
    config = read_config(tiny(folder, steps))
    return replace(
        config,
        architecture=replace(config.architecture, curvature=6),
        shapes=StageConfig(steps // 2),
        sizes=StageConfig(),
        curvature=StageConfig(steps // 2),
    )


def test_training_curvature_leaves_the_rest_as_it_is(tmp_path):
    config = curving(tmp_path, 8)
    assert [config.stage(step)[0] for step in (0, 3, 4, 7)] == ["shapes", "shapes", "curvature", "curvature"]
    train(config, tmp_path / "run")
    before = read_model(tmp_path / "run" / "model.safetensors")
    more = replace(config, initial=str(tmp_path / "run" / "model.safetensors"), shapes=StageConfig(), curvature=StageConfig(6))
    train(more, tmp_path / "more")
    after = read_model(tmp_path / "more" / "model.safetensors")
    changed = {name for name, w in before.weights.items() if not np.array_equal(w, after.weights[name])}
    assert changed == {"bend.hidden.weight", "bend.hidden.bias", "bend.out.weight", "bend.out.bias"}
    assert after.calibration == before.calibration
    wider = replace(
        more, architecture=replace(config.architecture, curvature_wide=(6,)), pairs=replace(config.pairs, zoom=4.0, noise=0.02)
    )
    train(wider, tmp_path / "wider")
    points = sphere(80, 1.0)
    fields = [
        poli.estimate(points, model=tmp_path / run / "model.safetensors", warn=False, curvature=True) for run in ("run", "wider")
    ]
    np.testing.assert_array_equal(fields[0].covariances, fields[1].covariances)
    assert (fields[0].curvatures != fields[1].curvatures).any()


def test_curvature_is_added_to_a_model_without_it(tmp_path):
    config = read_config(tiny(tmp_path, 2))
    first = train(config, tmp_path / "plain")
    bent = replace(curving(tmp_path, 2), initial=str(first), shapes=StageConfig(), curvature=StageConfig(2))
    field = poli.estimate(sphere(80, 1.0), model=train(bent, tmp_path / "bent"), warn=False, curvature=True)
    assert field.has_curvature
    with pytest.raises(InputError, match="no curvature"):
        replace(config, curvature=StageConfig(1))


def test_neighbors_that_only_curvature_needs_do_not_change_the_ellipsoids():
    points = sphere(500, 1.0) * (1.0, 0.7, 0.5)
    for architecture in SMALL:
        _, model = made(architecture)
        found, plain = (model.estimate(points, SIGHT, curvature).covariances for curvature in (True, False))
        np.testing.assert_array_equal(found, plain)


def test_chords_make_a_ball_a_quadric_at_any_distance():
    ball = torch.from_numpy(sphere(1000, 4.0)) + torch.tensor([4.0, 0.0, 0.0], dtype=torch.double)  # the point is at the origin
    near = ball[ball.norm(dim=1).argsort()[:60]][None]
    local = chords(near)
    np.testing.assert_allclose(local[..., 0], (local[..., 1] ** 2 + local[..., 2] ** 2) / 8.0, rtol=1e-6)
    left = residuals(local, 16)[0].numpy()
    assert (left[[1, 3]] < np.log(0.03) + 2.5).all()
    assert left[2] > left[3] + 1.0
    noisy = near + 0.1 * torch.randn(near.shape, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    np.testing.assert_allclose(residuals(chords(noisy), 16)[0, [1, 3]], np.log(0.1) + 2.5, atol=0.5)

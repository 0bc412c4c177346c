"""The network: invariance under permutation, motion and scale, and inference without torch against the reference."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poli
from benchmarks.metrics.surface import angles
from oracles import random_pose
from poli.errors import FormatError, InputError
from poli.estimation.architecture import Architecture, motion_inputs
from poli.estimation.estimate import shipped_models
from poli.estimation.model import read_model
from poli.estimation.ordered_cloud import Viewpoint
from poli.voxels import voxel_downsample
from poli.worlds import SENSORS, scan_of
from poli.worlds.shapes import procedural_mesh
from poli.worlds.sweep import true_normals

torch = pytest.importorskip("torch")
from poli.train.config import PairConfig  # noqa: E402
from poli.train.grouping import GroupBatch  # noqa: E402
from poli.train.losses import LossConfig, pair_loss  # noqa: E402
from poli.train.model_file import import_model  # noqa: E402
from poli.train.network import Network  # noqa: E402
from poli.train.network_input import group  # noqa: E402
from poli.train.object_pairs import draw_pairs  # noqa: E402
from tiny_training import ARCHITECTURES, cloud, exported, network  # noqa: E402

SIGHT = Viewpoint(np.zeros(3), np.array([0.0, 0.0, 1.0]))


def covariances(made: Network, points: np.ndarray) -> np.ndarray:
    batch = GroupBatch.of([group(points, made.architecture, SIGHT)])
    with torch.no_grad():
        L, frames = made.sized(batch)
        factor = (frames.double() @ L.double()).numpy()
    return factor @ np.swapaxes(factor, 1, 2)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_inference_without_torch_equals_the_reference(tmp_path, architecture):
    model = read_model(exported(tmp_path, architecture))
    for count in (16, 20, 150, 700):
        points = cloud(count, count)
        expected = 1.25**2 * covariances(network(architecture), points)
        found, extent = model.estimate(points, SIGHT).covariances, np.linalg.norm(np.ptp(points, axis=0))
        bounded = np.linalg.eigvalsh(expected)[:, 2] > extent**2  # random weights may warn; the runtime does not
        assert bounded.mean() < 0.2
        size = np.abs(expected[~bounded]).max(axis=(1, 2), keepdims=True)
        np.testing.assert_allclose(found[~bounded] / size, expected[~bounded] / size, atol=2e-4)
        assert np.linalg.eigvalsh(found).max() <= extent**2 * (1.0 + 1e-6)


@given(st.integers(0, 1000))
@settings(max_examples=8)
def test_ellipsoids_are_equivariant_under_motion_and_scale(seed):
    made, points = network(Architecture()), cloud(seed)
    T = random_pose(np.random.default_rng(seed))
    R = T[:3, :3]
    before, after = covariances(made, points), covariances(made, 10.0 * points @ R.T + T[:3, 3])
    error = np.abs(after - 100.0 * R @ before @ R.T).max(axis=(1, 2)) / (100.0 * np.abs(before).max(axis=(1, 2)))
    assert np.quantile(error, 0.9) < 1e-3  # the axes of a nearly round group may rotate
    moved = covariances(made, points + np.array([5.0, -3.0, 100.0]))
    assert np.quantile(np.abs(moved - before).max(axis=(1, 2)) / np.abs(before).max(axis=(1, 2)), 0.95) < 1e-4


def test_sizes_do_not_change_the_normals():
    made, points = network(Architecture()), cloud(8)
    batch = GroupBatch.of([group(points, made.architecture)])
    with torch.no_grad():
        made.maps["size_out"].bias.copy_(torch.tensor([9.0, -2.0, 1.0]))  # would make the thin axis the longest
        factor = (batch.frames[0] @ made(batch)).double()
        before = torch.linalg.eigh(factor @ factor.transpose(1, 2))[1][:, :, 0]
    after = np.linalg.eigh(covariances(made, points))
    assert (np.abs(np.einsum("ni,ni->n", after[1][:, :, 0], before.numpy())) > 0.99).all()


def test_clouds_of_a_batch_are_independent():
    made = network(Architecture())
    groupings = [group(cloud(seed, 100 + 20 * seed), made.architecture) for seed in range(3)]
    with torch.no_grad():
        together = made(GroupBatch.of(groupings)).numpy()
        apart = np.concatenate([made(GroupBatch.of([g])).numpy() for g in groupings])
    np.testing.assert_allclose(together, apart, rtol=1e-4, atol=1e-6)


def test_a_motion_changes_sizes_as_in_the_reference_and_no_directions(tmp_path):
    architecture = Architecture(neighbors=(8, 8), edge=(8, 8), scalars=(9, 9), reach=8, size=7, motion=True)
    model, made = read_model(exported(tmp_path, architecture)), network(architecture)
    points = voxel_downsample(6.0 * cloud(1, 600), 0.5).points
    fields = {}
    for name, motion in {"unknown": None, "still": 0.0, "far": 1.3}.items():
        batch = GroupBatch.of([group(points, architecture, SIGHT)], None if motion is None else [motion_inputs(motion)])
        with torch.no_grad():
            L, frames = made.sized(batch)
        factor = 1.25 * (frames.double() @ L.double()).numpy()
        expected = factor @ np.swapaxes(factor, 1, 2)
        found = fields[name] = model.estimate(points, SIGHT, motion=motion).covariances
        size = np.abs(expected).max(axis=(1, 2), keepdims=True)
        np.testing.assert_allclose(found / size, expected / size, atol=2e-4, err_msg=name)
    normals = [np.linalg.eigh(found)[1][:, :, 0] for found in fields.values()]
    for one, other in itertools.pairwise(normals):
        assert (np.abs(np.einsum("ni,ni->n", one, other)) > 1.0 - 1e-6).mean() > 0.95  # ties of a symmetric ellipsoid aside
    assert np.abs(fields["still"] / fields["far"] - 1.0).max() > 1e-3
    np.testing.assert_array_equal(model.estimate(points, SIGHT).covariances, fields["unknown"])


def test_a_motion_that_is_not_one_is_refused(tmp_path):
    path = exported(tmp_path, Architecture(size=6, motion=True))
    for model, motion in ((path, -1.0), (path, np.nan), (path, np.eye(4)), ("objects", 1.0), ("pca", 1.0)):
        with pytest.raises(InputError, match="motion"):
            poli.estimate(cloud(0, 100), model, motion=motion)


def test_only_sizes_may_differ_from_the_initial_model(tmp_path):
    old = read_model(exported(tmp_path, Architecture(size=6)))
    wider = network(Architecture(size=9, motion=True))
    before = wider.maps["size_hidden"].weight.clone()
    import_model(old, wider)
    torch.testing.assert_close(wider.maps["size_hidden"].weight, before)
    np.testing.assert_array_equal(wider.maps["down0_edge"].weight.detach().numpy(), old.weights["down0.edge.weight"])
    with pytest.raises(InputError, match="architecture"):
        import_model(old, network(Architecture(size=6, head=8)))
    moving = read_model(exported(tmp_path, Architecture(size=6, motion=True)))
    import_model(moving, network(Architecture()))  # a model without a layer of sizes may start from one that has it


def test_every_parameter_learns():
    architecture = ARCHITECTURES[1]
    made = network(architecture)
    mesh = procedural_mesh(1, 24)
    batch = draw_pairs(lambda _: mesh, PairConfig(points=(200,)), architecture, np.random.default_rng(0))
    config = LossConfig()
    pair_loss(config, batch.matches, made(batch.groups)[None], batch.groups.frames[0][None]).total.backward()
    shaping = {name for name, parameter in made.named_parameters() if parameter.grad is not None}
    assert shaping == {name for name, _ in made.named_parameters() if "size" not in name}
    L, frames = made.sized(batch.groups)
    pair_loss(config, batch.matches, L[None], frames[None]).total.backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name


def test_gradients_are_reproducible_with_several_threads():
    made = network(Architecture())
    batch = GroupBatch.of([group(cloud(seed, 600), made.architecture) for seed in range(2)])
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        gradients = []
        for _ in range(3):
            made.zero_grad()
            made(batch).square().sum().backward()
            gradients.append([p.grad.clone() for p in made.parameters() if p.grad is not None])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for again in gradients[1:] for a, b in zip(gradients[0], again, strict=True))


def tuned_pca(points):
    return [poli.pca(points, k=k) for k in (8, 12, 16, 24)]


def test_estimate_beats_pca_on_a_procedural_shape():
    points, normals = procedural_mesh(3_000_000, 64).sample(800, np.random.default_rng(0))
    mine, *rivals = (angles(field.normals, normals) for field in (poli.estimate(points, "objects"), *tuned_pca(points)))
    assert np.median(mine) < 0.9 * min(map(np.median, rivals))


def test_damaged_and_missing_model_files_are_refused(tmp_path):
    with pytest.raises(FormatError, match="no such model"):
        poli.estimate(cloud(7), model=tmp_path / "none.safetensors")
    whole = exported(tmp_path, ARCHITECTURES[1]).read_bytes()
    damaged = tmp_path / "damaged.safetensors"
    for content in (b"", whole[:200], b"\x08" + bytes(7) + b"[1,2,3] "):
        damaged.write_bytes(content)
        with pytest.raises(FormatError, match="damaged"):
            read_model(damaged)


def test_scans_are_estimated_with_and_without_sensor_information(rng):
    points = rng.standard_normal((300, 3)) * [20.0, 20.0, 2.0]
    odd = {
        "one on the sensor": np.concatenate([np.zeros((50, 3)), rng.standard_normal((50, 3))]),
        "on a line": np.outer(np.arange(60.0), [1.0, 0.0, 0.0]),
        "sixteen": rng.standard_normal((16, 3)),
        "straight above": np.outer(np.arange(1.0, 60.0), [0.0, 0.0, 1.0]),
    }
    fields = [poli.estimate(cloud, model) for cloud in odd.values() for model in shipped_models()]
    fields += [poli.estimate(points, merged=True), poli.estimate(points, up=None), poli.estimate(points, viewpoint=points + 5.0)]
    for field in fields:
        assert np.isfinite(field.covariances).all()
        assert np.linalg.eigvalsh(field.covariances).min() > 0
    with pytest.raises(InputError, match="up is"):
        poli.estimate(points, up=np.zeros(3))
    with pytest.raises(InputError, match="viewpoint"):
        poli.estimate(points, viewpoint=np.zeros(4))


def test_the_lidar_model_beats_pca_on_a_held_out_scan():
    raw = scan_of("town", SENSORS["vlp16"], 2_000_003)
    scan, truth = voxel_downsample(raw, 0.5), true_normals(raw, 0.5)
    known = np.isfinite(truth[:, 0])
    mine, *rivals = (angles(field.normals[known], truth[known]) for field in (poli.estimate(scan), *tuned_pca(scan)))
    assert np.median(mine) < 0.8 * min(map(np.median, rivals))
    assert np.sqrt(np.mean(mine**2)) < 0.97 * min(np.sqrt(np.mean(rival**2)) for rival in rivals)


def test_models_whose_tensors_do_not_fit_are_refused(tmp_path):
    from safetensors.numpy import load_file, save_file

    path = exported(tmp_path, ARCHITECTURES[1])
    metadata = read_model(path).metadata
    tensors = load_file(path)
    changes = {
        "missing": {k: v for k, v in tensors.items() if k != "head.hidden.bias"},
        "shape": {**tensors, "head.hidden.bias": np.zeros(3, np.float32)},
        "nan": {**tensors, "head.hidden.bias": np.full_like(tensors["head.hidden.bias"], np.nan)},
    }
    for name, changed in changes.items():
        save_file(changed, tmp_path / f"{name}.safetensors", metadata)
        with pytest.raises(FormatError, match=r"head\.hidden\.bias"):
            read_model(tmp_path / f"{name}.safetensors")
    save_file(tensors, tmp_path / "plain.safetensors")
    with pytest.raises(FormatError, match="not a model"):
        read_model(tmp_path / "plain.safetensors")

"""Training pairs: the paper's protocol, gating, noise, and reproducible draws."""

import numpy as np
import pytest

from poli.estimation.architecture import Architecture
from poli.worlds.shapes import procedural_mesh

torch = pytest.importorskip("torch")
from poli.train.config import PairConfig  # noqa: E402
from poli.train.object_pairs import MeshPool, draw_pairs  # noqa: E402

MESH = procedural_mesh(5, 32)


def draw(seed=0, **options):
    return draw_pairs(lambda _: MESH, PairConfig(**{"points": (200,), **options}), Architecture(), np.random.default_rng(seed))


def moved(batch):
    T = torch.from_numpy(batch.T_true)
    return batch.matches.source @ T[:, :3, :3].transpose(1, 2) + T[:, None, :3, 3]


def test_partners_lie_on_the_same_surface_at_the_true_pose():
    batch = draw(clouds=3, partners=2)
    assert batch.matches.source.shape == (6, 200, 3)
    assert len(batch.groups.spacing) == 600
    distance = (batch.matches.target - moved(batch)).norm(dim=2)
    assert distance.median() < batch.groups.spacing.double().median()
    assert batch.coverage == 1.0
    assert torch.equal(batch.matches.target[0], batch.matches.target[1])  # one Q, two partners
    assert not torch.equal(batch.matches.source[0], batch.matches.source[1])


def test_rotations_have_the_requested_size():
    angles = []
    for seed in range(60):
        R = draw(seed, max_rotation=60.0).T_true[0, :3, :3]
        angles.append(np.degrees(np.arccos(np.clip(0.5 * (np.trace(R) - 1.0), -1.0, 1.0))))
    assert 40.0 < max(angles) <= 60.0 + 1e-6
    assert min(angles) < 20.0


def test_measured_poses_have_the_requested_noise():
    batches = [draw(seed, translation_noise=0.03, partners=4) for seed in range(20)]
    errors = np.concatenate([b.matches.T_measured[:, :3, 3].numpy() - b.T_true[:, :3, 3] for b in batches])
    assert errors.std() == pytest.approx(0.03, rel=0.15)
    exact = draw()
    np.testing.assert_array_equal(exact.matches.T_measured.numpy(), exact.T_true)


def test_matches_are_nearest_under_the_measured_pose():
    batch = draw(translation_noise=0.1)
    T = batch.matches.T_measured[0].numpy()
    seen = batch.matches.source[0].numpy() @ T[:3, :3].T + T[:3, 3]
    q = batch.matches.target[0].numpy()
    mine = np.linalg.norm(q - seen, axis=1)
    # Among the matched partners, no other one is nearer than the match.
    assert (mine <= np.linalg.norm(q[:, None] - seen[None], axis=2).min(axis=1) + 1e-12).all()


def test_the_gate_disables_far_matches_and_coverage_reports_it():
    batch = draw(max_distance=0.05)
    distance = (batch.matches.target - moved(batch)).norm(dim=2)
    assert torch.equal(batch.matches.weights, (distance <= 0.05).double())
    assert 0.0 < batch.coverage < 1.0
    assert batch.coverage == pytest.approx(batch.matches.weights.mean().item())


def test_mesh_files_and_procedural_shapes_are_mixed_as_configured():
    other = procedural_mesh(6, 24)
    rng = np.random.default_rng(0)
    both = MeshPool((MESH,), (other,), 0.25)
    assert np.mean([both.pick(rng) is other for _ in range(400)]) == pytest.approx(0.25, abs=0.07)
    assert MeshPool((), (other,), 0.0).pick(rng) is other
    assert MeshPool((MESH,), (), 1.0).pick(rng) is MESH

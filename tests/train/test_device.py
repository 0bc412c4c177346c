"""The reference network on a torch device: the same ellipsoids as the package's runtime."""

import numpy as np
import pytest

import poli
from commands import run
from poli.errors import InputError

torch = pytest.importorskip("torch")
from poli.train.device import estimate  # noqa: E402
from tiny_training import ARCHITECTURES, cloud, exported  # noqa: E402


def same(found: poli.Ellipsoids, expected: poli.Ellipsoids) -> None:
    size = np.abs(expected.covariances).max(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(found.covariances / size, expected.covariances / size, atol=1e-4)
    np.testing.assert_array_equal(found.means, expected.means)
    np.testing.assert_array_equal(found.viewpoint, expected.viewpoint)


@pytest.mark.parametrize(
    "told", [{}, {"merged": True}, {"up": None}, {"up": [0.0, 1.0, 1.0]}, {"viewpoint": [5.0, 0.0, 1.0]}], ids=str
)
def test_the_shipped_model_receives_the_sensor_position(told, rng):
    points = rng.standard_normal((400, 3)) * [20.0, 20.0, 2.0]
    same(estimate(points, **told), poli.estimate(points, **told))


def test_the_callers_random_state_is_unchanged(tmp_path):
    model = exported(tmp_path, ARCHITECTURES[0])
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    estimate(cloud(1, 50), model)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("device", ["cuda:99", "meta", "abacus"])
def test_a_missing_device_is_named(tmp_path, device):
    with pytest.raises(InputError, match=rf"device is '{device}'.*available: cpu"):
        estimate(cloud(1, 50), exported(tmp_path, ARCHITECTURES[0]), device=device)


def test_the_command_accepts_a_device(tmp_path):
    model = exported(tmp_path, ARCHITECTURES[0])
    poli.write(cloud(3, 60), tmp_path / "scan.xyz")
    scan, out = str(tmp_path / "scan.xyz"), str(tmp_path / "f.npz")
    run("estimate", scan, out, "--model", str(model), "--device", "cpu")
    same(poli.Ellipsoids.load(out), poli.estimate(poli.read(scan), model))

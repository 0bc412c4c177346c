"""`poli --version` checks that the installation works, and reports it if not."""

import numpy as np
import pytest

import poli
from poli.cli import main


@pytest.fixture
def version(capsys):
    def run():
        with pytest.raises(SystemExit) as ended:
            main(["--version"])
        return ended.value.code, *capsys.readouterr()

    return run


def test_it_tries_the_models(version, monkeypatch):
    monkeypatch.setattr("poli.cli.installed._are_compiled", lambda: True)
    code, out, err = version()
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"poli {poli.__version__}"
    assert out.splitlines()[3] == "models: lidar, objects; tested"


def test_a_model_with_wrong_results_is_reported(version, monkeypatch):
    monkeypatch.setattr("poli.cli.installed._are_compiled", lambda: True)

    def sideways(points, model):
        return poli.Ellipsoids(points, np.tile(np.diag([1e-4, 1.0, 1.0]), (len(points), 1, 1)))

    monkeypatch.setattr("poli.estimation.estimate", sideways)
    code, _, err = version()
    assert code == 2
    assert err.startswith("poli: this installation does not work: normals of lidar are off by 90 degrees")
    assert err.endswith("; reinstall poli\n")


def test_it_does_not_wait_for_a_compiler(version, monkeypatch):
    def compiled(points, model):
        raise AssertionError

    monkeypatch.setattr("poli.estimation.estimate", compiled)
    monkeypatch.setattr("poli.cli.installed._are_compiled", lambda: False)
    monkeypatch.setattr("poli.kernel.kernel_cache", lambda: ("/cache", "/cache is open to other users"))
    code, out, _ = version()
    assert code == 0
    assert "kernels: not cached: /cache is open to other users" in out
    assert "lidar, objects; not tested" in out

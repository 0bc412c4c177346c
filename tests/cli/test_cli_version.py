"""`poli --version` says what is installed, and where kernels are cached."""

import pytest

import poli
from poli.cli import main


@pytest.mark.parametrize("trouble", ["", "/cache is open to other users"])
def test_it_says_where_kernels_are_cached(capsys, monkeypatch, trouble):
    monkeypatch.setattr("poli.kernel.kernel_cache", lambda: ("/cache", trouble))
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    first, _, kernels, models = capsys.readouterr().out.splitlines()
    assert ended.value.code == 0
    assert first == f"poli {poli.__version__}"
    assert kernels == ("kernels: not cached: /cache is open to other users" if trouble else "kernels: cached in /cache")
    assert models == "models: lidar, objects"

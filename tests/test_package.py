"""The package as a user meets it."""

import subprocess
import sys
from pathlib import Path

import poli
from poli.errors import MissingExtra


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_poli_loads_nothing_heavy():
    loaded = run_python(
        "import sys, poli; print(*[m for m in ('torch', 'open3d', 'numba', 'scipy', 'matplotlib', 'PIL') if m in sys.modules])"
    )
    assert loaded.strip() == ""


def test_the_core_needs_neither_torch_nor_open3d():
    code = (
        "import sys; sys.modules['torch'] = sys.modules['open3d'] = None\n"
        "import numpy as np, poli\n"
        "rng = np.random.default_rng(0); p = rng.normal(size=(100, 3))\n"
        "field = poli.pca(p); pose = poli.certify.solve(p, p, np.tile(np.eye(3), (100, 1, 1)))\n"
        "p /= np.linalg.norm(p, axis=1, keepdims=True) * (1.0 + 0.5 * (p[:, :1] > 0.3))\n"
        "print(len(field.normals), pose.certified, len(poli.estimate(p)), poli.register(p, p).certified)"
    )
    assert run_python(code).split() == ["100", "True", "100", "True"]


def test_learn_without_torch_names_the_extra():
    """Every module of it, also those that do without torch themselves."""
    modules = sorted(path.stem for path in (Path(poli.__file__).parent / "learn").glob("*.py") if path.stem != "__init__")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import importlib, poli\n"
        f"for name in {modules}:\n"
        "    try:\n        importlib.import_module(f'poli.learn.{name}')\n"
        "    except poli.PoliError as error:\n        print(name, error, sep=': ')"
    )
    assert len(modules) > 15
    assert run_python(code).splitlines() == [f"{name}: {MissingExtra('poli.learn', 'train')}" for name in modules]
    assert "pip install 'poli[train]'" in str(MissingExtra("poli.learn", "train"))


def test_every_public_name_resolves():
    for name in poli.__all__:
        assert getattr(poli, name) is not None
    assert set(dir(poli)) == set(poli.__all__)


def test_unknown_names_fail_as_python_expects():
    assert not hasattr(poli, "no_such_name")

"""The package as users import it."""

import ast
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


def test_the_core_needs_no_scipy_and_no_other_solver(tmp_path):
    code = (
        "import sys; sys.modules['scipy'] = sys.modules['clarabel'] = None\n"
        "import numpy as np, poli\n"
        "from poli.worlds import SENSORS, scan_of\n"
        "from poli.io.trajectory_files import TrajectoryWriter\n"
        "rng = np.random.default_rng(0); p, q = rng.normal(size=(2, 40, 3)); eyes = np.tile(np.eye(3), (40, 1, 1))\n"
        "pose = poli.certify.solve(p, q, eyes, shortcut=False)\n"
        "scan = scan_of('town', SENSORS['vlp16'], seed=1)\n"
        f"TrajectoryWriter({str(tmp_path / 'poses.txt')!r}, 'tum').append(pose.T_target_source, 0)\n"
        "print(pose.certified, len(scan.points) > 1000)"
    )
    assert run_python(code).split() == ["True", "True"]


def test_no_kernel_calls_blas():
    """numba takes BLAS and LAPACK from scipy: a kernel with `@`, np.dot or np.linalg would not compile without it."""
    kernels, calls = 0, []
    for path in Path(poli.__file__).parent.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef) or not any("kernel" in ast.unparse(d) for d in function.decorator_list):
                continue
            kernels += 1
            for node in ast.walk(function):
                by_sign = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult)
                name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                if by_sign or "linalg" in name or name in ("np.dot", "np.vdot") or name.endswith(".dot"):
                    calls.append(f"{path.name}: {function.name}: {ast.unparse(node)}")
    assert kernels > 50
    assert calls == []


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


def test_train_without_torch_names_the_extra():
    """Every module of it, including those that do not need torch."""
    modules = sorted(path.stem for path in (Path(poli.__file__).parent / "train").glob("*.py") if path.stem != "__init__")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import importlib, poli\n"
        f"for name in {modules}:\n"
        "    try:\n        importlib.import_module(f'poli.train.{name}')\n"
        "    except poli.PoliError as error:\n        print(name, error, sep=': ')"
    )
    assert len(modules) > 15
    assert run_python(code).splitlines() == [f"{name}: {MissingExtra('poli.train', 'train')}" for name in modules]


def test_every_public_name_resolves():
    for name in poli.__all__:
        assert getattr(poli, name) is not None
    assert set(dir(poli)) == set(poli.__all__)

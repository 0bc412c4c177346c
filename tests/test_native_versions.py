"""Declared numba versions, CPU levels and kernels match reality."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import poli
from poli.native import machine
from poli.native.numba_private import TESTED
from poli.native.package import chosen, compiled_code

ROOT = Path(__file__).parent.parent
PACKAGE = Path(poli.__file__).parent


def test_private_numba_names_are_used_in_one_file_only():
    """Public names: those that `numba` exports, `extending`, `config` and `event`, documented by numba, and `cgutils`, which every
    intrinsic needs."""
    public = {"numba", "numba.extending", "numba.core.event", "numba.core.cgutils", "numba.core.config"}
    private = {path.relative_to(PACKAGE).as_posix(): _numba_modules(path) - public for path in sorted(PACKAGE.rglob("*.py"))}
    assert [name for name, modules in private.items() if modules] == ["native/numba_private.py"], private


def _numba_modules(path: Path) -> set[str]:
    """The numba modules that a file imports, in any form of import."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "numba.core":
            found |= {f"numba.core.{name.name}" for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    return {name for name in found if name.partition(".")[0] == "numba"}


def test_the_allowed_versions_are_the_tested_ones():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    allowed = [
        line for line in project["project"]["dependencies"] + project["build-system"]["requires"] if line.startswith("numba")
    ]
    assert set(allowed) == {f"numba>={'.'.join(TESTED[0].split('.')[:2])}"}
    pinned = re.search(r"^numba==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert pinned[1] == TESTED[1]


def test_build_requirements_include_the_package_requirements():
    """The build hook imports the package. Only the requirements of the command line are left out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {line for line in project["project"]["dependencies"] if not line.startswith(("typer", "rich"))}
    assert needed <= set(project["build-system"]["requires"])


@pytest.mark.parametrize(("has", "best"), [(machine._V4, "x86-64-v4"), (machine._V3, "x86-64-v3"), (machine._V3[1:], None)])
def test_the_best_level_that_a_cpu_supports_is_chosen(monkeypatch, has, best):
    monkeypatch.setattr(machine, "_abilities", lambda: frozenset(has))
    machine.this_process.cache_clear()
    made = {level: machine.this_process() | {"cpu": level, "features": ""} for level in ("x86-64-v4", "x86-64-v3")}
    machine.this_process.cache_clear()
    runs = [level for level in machine.LEVELS if level in made and machine.obstacle(made[level]) is None]
    assert (runs or [None])[0] == best


def test_no_compiled_code_is_in_the_repository():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a clone")
    machine_code = (b"\x7fELF", b"BC\xc0\xde", b"POLI native", b"\xcf\xfa\xed\xfe", b"MZ", b"x\xda")  # the last one: compressed
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file():
            assert not path.read_bytes().startswith(machine_code), name
    assert "/src/poli/native/compiled/" in (ROOT / ".gitignore").read_text().splitlines()


def test_all_kernels_called_from_python_are_precompiled():
    code = chosen()
    if code.bundle is None or not compiled_code().is_ready:
        pytest.skip("these sources have no compiled code; run `make kernels`")
    compiled = {kernel for kernel, _ in code.bundle.overloads()}
    trees = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(["poli", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")
        trees[module] = ast.parse(path.read_bytes())
    kernels = {f"{module}.{node.name}" for module, tree in trees.items() for node in tree.body if _is_kernel(node)}
    called = {name for module, tree in trees.items() for name in _named_in_python(module, tree)} & kernels
    assert len(called) > 40
    assert called <= compiled, "add a call of these kernels to poli.building.warmup"


def _is_kernel(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and any("kernel" in ast.unparse(line) for line in node.decorator_list)


def _named_in_python(module: str, tree: ast.Module) -> set[str]:
    """Names used by plain functions and classes of a module, by origin."""
    origin = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            origin |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    plain = [node for node in tree.body if not _is_kernel(node)]
    names = {node.id for part in plain for node in ast.walk(part) if isinstance(node, ast.Name)}
    return {origin.get(name, f"{module}.{name}") for name in names}

"""The cache of compiled kernels: it is used, never stale, and no damage to it stops a program."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import poli

NOTICE = "poli: compiling kernels"
PROGRAM = "from poli.outer import outer; print(outer(1))"
OUTER = """from poli.inner import ADDED, inner
from poli.kernel import kernel


@kernel
def outer(x):
    return inner(x) + ADDED
"""
INNER = """from poli.kernel import kernel
from poli.number import NUMBER

ADDED = NUMBER


@kernel
def inner(x):
    return x + 1
"""


class Package:
    """A small copy of the package: two kernels in two modules, and a constant in a third."""

    def __init__(self, folder: Path) -> None:
        self.sources, self.base = folder / "poli", folder / "cache"
        self.sources.mkdir()
        shutil.copy(Path(poli.__file__).parent / "kernel.py", self.sources)
        for name, text in (("__init__", ""), ("outer", OUTER), ("inner", INNER), ("number", "NUMBER = 10\n")):
            (self.sources / f"{name}.py").write_text(text)
        self.cache = self.base / "poli" / "kernels"

    def start(self, program: str = PROGRAM, **environment: str) -> subprocess.Popen:
        added = {"PYTHONPATH": str(self.sources.parent), "NUMBA_CACHE_DIR": str(self.base), "POLI_NOTICE": "1", **environment}
        command = [sys.executable, "-B", "-c", program]
        return subprocess.Popen(command, env=os.environ | added, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, program: str = PROGRAM, **environment: str) -> tuple[str, str]:
        with self.start(program, **environment) as process:
            out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        return out.strip(), err

    def edit(self, name: str, old: str, new: str) -> None:
        """Change a file, but neither its size nor its time."""
        path = self.sources / f"{name}.py"
        before = path.stat()
        path.write_text(path.read_text().replace(old, new))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def package(tmp_path):
    return Package(tmp_path)


def test_a_second_process_compiles_nothing(package):
    assert package.run(POLI_NOTICE="0", NUMBA_CACHE_DIR=str(package.base / "other")) == ("12", "")  # without the notice
    out, err = package.run()
    assert out == "12"
    assert err.count(NOTICE) == 1
    assert str(package.cache) in err
    assert package.run() == ("12", "")
    (package.sources / "other.py").write_text("OTHER = 1\n")  # which no kernel imports
    assert package.run() == ("12", "")


@pytest.mark.parametrize(("name", "old", "new", "answer"), [("inner", "x + 1", "x + 2", "13"), ("number", "10", "20", "22")])
def test_an_edit_of_another_file_is_compiled_in(package, name, old, new, answer):
    package.run()
    package.edit(name, old, new)
    out, err = package.run()
    assert out == answer
    assert NOTICE in err


def test_without_a_folder_it_runs(package, tmp_path):
    (tmp_path / "file").touch()
    out, err = package.run(NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert out == "12"
    assert "not cached" in err
    assert not list(package.sources.rglob("*.nbi"))  # nor does numba cache elsewhere


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage"])
def test_damaged_files_are_compiled_again(package, damage):
    package.run()
    files = [*package.cache.glob("*/*/*.nbi"), *package.cache.glob("*/*/*.nbc")]
    assert len(files) == 4
    for path in files:
        content = path.read_bytes()
        path.write_bytes({"empty": b"", "cut": content[: len(content) // 2], "garbage": b"not code"}[damage])
    out, err = package.run()
    assert out == "12"
    assert NOTICE in err


def test_two_processes_at_once(package):
    processes = [package.start(), package.start()]
    assert [process.communicate(timeout=120)[0].strip() for process in processes] == ["12", "12"]
    assert package.run() == ("12", "")


def test_code_that_was_not_used_for_long_is_removed(package):
    package.run()
    before = set(package.cache.iterdir())
    for path in before:
        os.utime(path, (0, 0))
    package.edit("inner", "x + 1", "x + 2")
    package.run()
    assert not before & set(package.cache.iterdir())

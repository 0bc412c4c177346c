"""Kernels compiled ahead: of these sources, with numba's answers; and whatever is wrong with them, numba takes over."""

import json
import os
import shutil
import subprocess
import sys
import zlib
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from threading import Barrier, Thread

import numpy as np
import pytest
from safetensors.numpy import save_file

import poli
from poli.ahead import bind, header, loading, object_code
from poli.ahead.cache import cached
from poli.ahead.header import BITCODE, OBJECT, Header
from poli.ahead.layout import Layout
from poli.estimation.architecture import Architecture
from poli.estimation.model import MODEL_FORMAT
from poli.kernel import kernel

ARCHITECTURES = {
    "objects": Architecture(),
    "lidar": Architecture(
        neighbours=(8, 8, 6), edge=(8, 12, 16), scalars=(12, 16, 20), vectors=0, reach=8, wide=(6, 4), frames="sensor",
        log_scale=True, sensor=True, size=10,
    ),
}  # fmt: skip

# Estimates with nothing but an empty cache, and tells how often numba compiled, and where object code came from.
CHILD = """
import sys
from numba.core.event import install_recorder
import numpy as np
import poli
from poli.ahead import cache, loading, object_code

folder, way = sys.argv[1:]
made = []
if way != "shipped":
    object_code._runs_shipped_code = lambda: False
    generate = object_code.generate
    object_code.generate = lambda *args: made.append(1) or generate(*args)
points = np.load(folder + "/points.npy")
with install_recorder("numba:compile") as compiled:
    answers = {name: poli.estimate(points, model=f"{folder}/{name}.safetensors").covariances for name in ("objects", "lidar")}
    answers["merged"] = poli.estimate(points, model=folder + "/lidar.safetensors", merged=True).covariances
    fields = {"nearest": poli.pca(points, k=9), "within": poli.pca(points, radius=0.4)}
    answers |= {name: field.covariances for name, field in fields.items()}
    answers |= {name + " normals": field.normals for name, field in fields.items()}
np.savez(folder + "/answers.npz", **answers)
print(len(compiled.buffer), len(made), len(loading.native_kernels()))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Points, and models with random weights."""
    folder, rng = tmp_path_factory.mktemp("ahead"), np.random.default_rng(0)
    np.save(folder / "points.npy", rng.standard_normal((900, 3)))
    for name, architecture in ARCHITECTURES.items():
        weights = {}
        for layer, (inputs, outputs) in architecture.linear_shapes().items():
            weights[f"{layer}.weight"] = (rng.standard_normal((outputs, inputs)) / np.sqrt(inputs)).astype(np.float32)
            weights[f"{layer}.bias"] = (0.1 * rng.standard_normal(outputs)).astype(np.float32)
        metadata = {"format": MODEL_FORMAT, "architecture": json.dumps(asdict(architecture)), "calibration": "1.1", "name": name}
        save_file(weights, folder / f"{name}.safetensors", metadata)
    return folder


@pytest.fixture
def forgotten(monkeypatch):
    """As in a process that has not loaded anything yet."""
    monkeypatch.setattr(loading, "_kernels", None)


def child(folder: Path, way: str, **environment: str) -> tuple[dict[str, np.ndarray], list[int]]:
    clean = {name: value for name, value in os.environ.items() if name != "POLI_NO_AHEAD"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), way], env=clean | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    with np.load(folder / "answers.npz") as answers:
        return dict(answers), [int(count) for count in done.stdout.split()]


def by_numba(folder: Path, monkeypatch) -> dict[str, np.ndarray]:
    monkeypatch.setattr(loading, "_kernels", {})
    points = np.load(folder / "points.npy")
    answers = {name: poli.estimate(points, model=folder / f"{name}.safetensors").covariances for name in ARCHITECTURES}
    answers["merged"] = poli.estimate(points, model=folder / "lidar.safetensors", merged=True).covariances
    for name, field in {"nearest": poli.pca(points, k=9), "within": poli.pca(points, radius=0.4)}.items():
        answers |= {name: field.covariances, f"{name} normals": field.normals}
    return answers


def test_the_kernels_are_of_these_sources():
    made = Header.read()
    assert made.is_current(), "a kernel has changed since the kernels were compiled: run `make kernels`"
    for name in (BITCODE, OBJECT):
        assert made.content(name), f"{name} is damaged: run `make kernels`"


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="elsewhere numba compiles")
def test_new_machines_need_no_compiler_and_get_the_same_answers(folder, tmp_path, monkeypatch):
    expected = by_numba(folder, monkeypatch)
    empty, home = tmp_path / "empty", tmp_path / "home"
    empty.mkdir()
    home.mkdir()
    runs = [("shipped", {"NUMBA_CACHE_DIR": str(empty)}, None)] if object_code._runs_shipped_code() else []
    runs += [
        ("generated", {"NUMBA_CACHE_DIR": str(empty)}, 1),
        ("kept by the run before", {"NUMBA_CACHE_DIR": str(empty)}, 0),
        ("nowhere to keep it", {"NUMBA_CACHE_DIR": str(folder / "points.npy" / "a file is no folder")}, 1),
        ("in the user's cache", {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": str(home)}, 1),
    ]
    for way, environment, times in runs:
        answers, (compiled, generated, kernels) = child(folder, way, **environment)
        assert compiled == 0, way
        assert kernels == len(Header.read().kernels), way
        assert times is None or generated == times, way
        for name, answer in answers.items():
            size = np.abs(expected[name]).max(axis=-1, keepdims=True)
            np.testing.assert_allclose(answer / size, expected[name] / size, atol=1e-5, err_msg=f"{way}: {name}")
    assert [path.suffix for path in (home / "poli").iterdir()] == [".o"]


def test_without_them_numba_compiles(forgotten, monkeypatch):
    monkeypatch.setenv("POLI_NO_AHEAD", "1")
    assert loading.native_kernels() == {}


HARMS = ("no header", "an odd header", "other sources", "no code", "damaged code", "no code at all", "nobody allocates")


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("shipped", [True, False])
def test_whatever_is_wrong_nothing_is_loaded(forgotten, monkeypatch, tmp_path, harm, shipped):
    name = OBJECT if shipped else BITCODE
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(object_code, "_runs_shipped_code", lambda: shipped)
    shutil.copytree(header.FOLDER, tmp_path / "ahead")
    made, code = Header.read(), tmp_path / "ahead" / name
    monkeypatch.setattr(header, "FOLDER", tmp_path / "ahead")
    if harm == "no header":
        (tmp_path / "ahead" / "kernels.json").unlink()
    elif harm == "an odd header":
        (tmp_path / "ahead" / "kernels.json").write_text('{"kernels": 3}')
    elif harm == "other sources":
        replace(made, fingerprint="0").write()
    elif harm == "no code":
        code.unlink()
    elif harm == "damaged code":
        code.write_bytes(code.read_bytes()[:-1])
    elif harm == "no code at all":
        code.write_bytes(zlib.compress(b"as the header says"))
        replace(made, digests={name: sha256(code.read_bytes()).hexdigest()}).write()
    else:
        monkeypatch.setattr(loading, "_ALLOCATION", {})
    assert loading.native_kernels() == {}


def test_an_older_llvm_is_not_asked_to_read_bitcode(forgotten, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(object_code, "_runs_shipped_code", lambda: False)
    monkeypatch.setattr(object_code, "generate", lambda *_: pytest.fail("asked"))
    future = replace(Header.read(), llvm=999)
    monkeypatch.setattr(Header, "read", staticmethod(lambda: future))
    assert loading.native_kernels() == {}


def test_what_is_kept_is_made_once_and_anew_if_damaged(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "new" / "folder"))
    made = []

    def make() -> bytes:
        made.append(1)
        return b"code"

    assert [cached("key", make), cached("key", make), len(made)] == [b"code", b"code", 1]
    assert [cached("another key", make), len(made)] == [b"code", 2]
    for file in (tmp_path / "new" / "folder").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert [cached("key", make), cached("key", make), len(made)] == [b"code", b"code", 3]


def test_threads_that_are_first_together_load_once(forgotten, monkeypatch):
    loads, seen, barrier = [], [], Barrier(8)
    load = loading._load
    monkeypatch.setattr(loading, "_load", lambda: loads.append(1) or load())

    def first() -> None:
        barrier.wait()
        seen.append(loading.native_kernels())

    threads = [Thread(target=first) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert len(seen) == 8
    assert all(kernels is seen[0] for kernels in seen)


def test_arguments_of_other_types_are_refused():
    layout = Layout("f8[2] i8 f4[1] f4 b1 f8")
    matrix, row = np.zeros((3, 4)), np.zeros(5, np.float32)
    slots = layout.slots((matrix, 7, (row, np.float32(0.5)), True, 0.25))
    assert slots is not None
    assert len(slots) == 6 * 8
    assert np.frombuffer(slots, np.int64)[[0, 1, 2, 4]].tolist() == [id(matrix), 7, id(row), 1]
    assert np.frombuffer(slots, np.float64)[5] == 0.25
    for odd in (matrix.astype(np.float32), matrix.T, matrix[:, ::2], matrix[0], matrix.astype(">f8"), [[0.0]], None):
        assert layout.slots((odd, 7, row, 0.5, True, 0.25)) is None
    assert layout.slots((matrix, 7.5, row, 0.5, True, 0.25)) is None
    assert layout.slots((matrix, 7, row, 0.5, True)) is None
    assert layout.slots((matrix, 7, row, 0.5, True, 0.25, 1)) is None


@kernel
def _add(values, begin, end, total):
    for i in range(begin, end):
        total[0] += values[i]


def test_kernels_that_were_not_compiled_ahead_or_fail_go_to_numba(monkeypatch):
    values, total = np.arange(5.0), np.zeros(1)
    bind(_add, values, total)(1, 4)
    assert total[0] == 6.0
    failing = loading.NativeKernel(lambda slots, begin, end: 1, Layout("f8[1] f8[1]"))
    monkeypatch.setattr(loading, "_kernels", {f"{__name__}._add": failing})
    bind(_add, values, total)(0, 5)
    assert total[0] == 16.0
    bind(_add.py_func, values, total)(0, 2)  # as under NUMBA_DISABLE_JIT
    assert total[0] == 17.0

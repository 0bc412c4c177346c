"""The runtime benchmarks, on clouds small enough for a test."""

import json

import numpy as np
import pytest

from benchmarks.__main__ import run
from benchmarks.data.sized_clouds import real_cloud
from benchmarks.timing import STAGES, medians, stopwatch
from pictures import plot_colors
from poli.errors import FormatError, InputError
from poli.io.datasets import write_kitti
from poli.scan import Scan
from poli.se3 import exp
from poli.threads import thread_count

torch = pytest.importorskip("torch")
from poli.estimation.architecture import Architecture  # noqa: E402
from poli.train.config import TrainConfig  # noqa: E402
from poli.train.model_file import export_model  # noqa: E402
from poli.train.network import Network  # noqa: E402

SIZES = (200, 400)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """A small untrained model for scans: its cost does not depend on its weights."""
    path = tmp_path_factory.mktemp("model") / "small.safetensors"
    architecture = Architecture(
        neighbors=(8, 6), edge=(8, 12), scalars=(12, 16), reach=8, wide=(6,), rounds=1, frames="sensor", log_scale=True,
        sensor=True, size=10,
    )  # fmt: skip
    torch.manual_seed(0)
    export_model(path, Network(architecture), TrainConfig(architecture=architecture), 7, 1.0)
    return str(path)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Two sequences of two scans, the second the larger; the sensor moves by 3 m between them."""
    root, rng = tmp_path_factory.mktemp("real"), np.random.default_rng(1)
    poses = np.stack([exp(np.array([0.0, 0.0, 0.0, 3.0 * i, 0.0, 0.0])) for i in range(2)])
    for name, count in (("small", 150), ("large", 300)):
        scans = [Scan((rng.standard_normal((count, 3)) + [10.0, 0.0, 0.0]).astype(np.float32)) for _ in poses]
        write_kitti(root, name, scans, poses)
    return root


def test_contestants_run_the_requested_number_of_times_in_turns():
    runs = []
    found = medians({name: stopwatch(lambda name=name: runs.append(name)) for name in "ab"}, 5)
    assert set(found) == {"a", "b"}
    assert "".join(runs) == "aaabbbaaaabbbbaaaabbbb"  # the first two of each burst do not count
    milliseconds = iter([90, 90, 1, 90, 90, 7, 5, 90, 90, 2, 3])
    assert medians({"a": lambda: {"total": float(next(milliseconds))}}, 5) == {"a": {"total": 3.0}}


def test_real_clouds_are_merged_where_one_scan_is_too_small(real, tmp_path):
    one, two = real_cloud(real, 250), real_cloud(real, 500)
    assert (len(one.points), len(two.points)) == (250, 500)
    assert "large, one scan (300 returns)" in one.source
    assert "large, 2 scans merged by their poses (600 returns)" in two.source
    assert one.points[:, 0].mean() == pytest.approx(10.0, abs=0.3)
    assert two.points[:, 0].mean() == pytest.approx(11.5, abs=0.3)  # the second scan is placed in the frame of the first
    with pytest.raises(InputError, match=r"601 points .*sequence large.* 600"):
        real_cloud(real, 601)
    with pytest.raises(FormatError, match="no scans"):
        real_cloud(tmp_path, 10)


def test_runtime_writes_table_metrics_and_plot(tmp_path, model, real):
    pytest.importorskip("open3d")
    pytest.importorskip("small_gicp")
    sizes = ",".join(map(str, SIZES))
    options = ["--sizes", sizes, "--repeats", "1", "--model", model, "--real", str(real), "--no-first-call", "--out", str(tmp_path)]
    run(["runtime", *options, "--json", str(tmp_path / "figures.json")])
    figures = json.loads((tmp_path / "figures.json").read_text())
    for scan, prefix in (("simulated", ""), ("real", "real_")):
        records = {r["points"]: r for r in figures["records"] if r["scan"] == scan}
        assert tuple(records) == SIZES
        for n, r in records.items():
            times = r["times_ms"]
            assert figures[f"{prefix}ratio_open3d_{n}"] == pytest.approx(times["poli"] / times["open3d"])
            assert set(times) == {"poli", "pca", "open3d", "small_gicp"}
            assert set(r["stages_ms"]) == set(STAGES)
            assert figures[f"{prefix}peak_mb_{n}"] == r["peak_mb"]
        first, second = (records[n]["times_ms"]["poli"] for n in SIZES)
        assert figures[f"{prefix}exponent"] == pytest.approx(np.log2(second / first))  # twice the points
        assert figures[f"{prefix}exponents"]["poli"] == figures[f"{prefix}exponent"]
    assert figures["vlp16_ms"] > 0.0
    assert figures["threads"] == thread_count()
    name = "runtime" if thread_count() > 1 else "runtime_one_thread"
    assert "| 400, real |" in (tmp_path / f"{name}.md").read_text()
    assert len(plot_colors(tmp_path / f"{name}.png")) >= 4

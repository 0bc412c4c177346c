"""The benchmark of scans per second, with a drive small enough for a test; the measured values are not checked."""

import json

import numpy as np
import pytest

from benchmarks.__main__ import run
from benchmarks.data.densify_inputs import write_bins, write_mcap
from benchmarks.experiments.throughput import CLUSTER, ONE_THREAD, ONE_WORKER, PROCESSES, Options
from poli.data.datasets import dataset
from tiny_scans import room

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'poli[ros]'")


def test_both_inputs_contain_the_drive(tmp_path):
    clouds = [room(count).points for count in (40, 50)]
    for found in (dataset("folder", write_bins(clouds, tmp_path / "bins")), dataset("bag", write_mcap(clouds, tmp_path / "bag"))):
        assert len(found) == 2
        for scan, points in zip(found, clouds, strict=True):
            np.testing.assert_array_equal(scan.points, points)
            np.testing.assert_array_equal(scan.fields["intensity"], 0.0)


def test_the_report_has_a_row_for_each_worker_and_input(tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="distributed is not installed: pip install 'poli[cluster]'")
    monkeypatch.setenv("POLI_NUM_THREADS", "2")
    beams = tmp_path / "small.txt"
    beams.write_text("# steps 200\n" + "\n".join(str(e) for e in np.linspace(-15.0, 15.0, 8)))
    options = ["--sensor", beams, "--scans", 3, "--repeats", 1, "--drives", tmp_path / "drives", "--out", tmp_path / "results"]
    run(["throughput", *map(str, options)])
    figures = json.loads((tmp_path / "results" / "throughput.json").read_text(), parse_constant=pytest.fail)  # NaN is not JSON
    assert figures["scans"] == 3
    assert figures["points_in"] < figures["points_out"] < 8 * figures["points_in"]
    records = {(r["kind"], r["method"]): r for r in figures["records"]}
    assert list(records) == [(kind, who) for kind in ("folder", "bag") for who in (ONE_THREAD, ONE_WORKER, PROCESSES, CLUSTER)]
    assert all(len(r["rates"]) == 1 and r["start_s"] > 0.0 for r in records.values())
    rates = {who: r["rate"] for (kind, who), r in records.items() if kind == "bag"}
    assert figures["ratio_bag_processes"] == pytest.approx(rates[PROCESSES] / rates[ONE_THREAD])
    assert figures["ratio_bag_dask_cluster_all_threads"] == pytest.approx(rates[CLUSTER] / rates[ONE_WORKER])
    table = (tmp_path / "results" / "throughput.md").read_text()
    assert table.count("\n| .bin files |") == table.count("\n| mcap bag |") == 4
    assert "dask cluster of 2 workers" in table


def test_custom_scans(tmp_path):
    folder = write_bins([room(count).points for count in (40, 50, 60)], tmp_path / "bins")
    scans = Options(data=folder, scans=2).read()
    assert [len(points) for points in scans.clouds] == [40, 50]

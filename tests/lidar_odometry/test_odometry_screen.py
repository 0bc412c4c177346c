"""`poli odometry`: its messages, and its picture."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from odometry_runs import COUNT, Scans, in_memory, run
from pictures import drawn_share, read_picture
from poli.errors import FormatError, InputError
from poli.io import datasets
from poli.io.datasets import Skipped, write_kitti
from poli.lidar_odometry.run_folder import read_steps
from poli.scan import Scan

# --- messages


def test_an_empty_scan_is_predicted_reported_and_marked(tmp_path, drive, sweeps, open_as_memory):
    scans = list(sweeps)
    scans[4] = Scan(np.zeros((0, 3)), stamp=sweeps[4].stamp)
    open_as_memory(Scans(scans, drive.poses, skipped=[Skipped(f"{n}.bin", "no pose within 0.001 s") for n in range(7)]))
    result, summary = in_memory(tmp_path)
    (odd,) = summary["not_tracked"]
    assert (odd["index"], odd["scan"], odd["status"]) == (4, 4, "predicted")
    assert "warning: scan 4 predicted: only 0 points remain of 0 returns" in result.output
    assert read_steps(tmp_path / "run")[4]["fit"] == ""
    assert summary["evaluation"]["ape_origin"]["count"] == COUNT
    assert "skipped in the data: 0.bin: no pose within 0.001 s" in result.output
    assert "and 2 more (7 in total" in result.output
    assert len(json.loads((tmp_path / "run" / "config.json").read_text())["data"]["skipped"]) == 7
    picture = read_picture(tmp_path / "run" / "trajectory.png")
    assert (picture == [0xD5, 0x5E, 0x00]).all(axis=2).sum() > 50


def test_wrong_options_name_the_remedy_and_write_nothing(tmp_path, monkeypatch, drive, sweeps):
    write_kitti(tmp_path / "data", "00", sweeps[:2], drive.poses[:2])
    write_kitti(tmp_path / "data", "01", sweeps[:2], drive.poses[:2])
    monkeypatch.chdir(tmp_path)
    for arguments, kind, said in [
        (["--option", "topic"], InputError, "expected KEY=VALUE"),
        (["--sequence", "00", "--option", "beams=3"], InputError, "no option 'beams'; it has sequence, poses, min_range"),
        (["--sequence", "00", "--option", "sequence=1"], InputError, "given twice"),
        ([], InputError, "00, 01; pass --sequence"),
        (["--dataset", "moon"], InputError, "unknown dataset 'moon'"),
        (["--sequence", "00", "--first", 2], InputError, "has 2 scans; the last index is 1"),
        (["--sequence", "00", "--model", "no"], InputError, "expected one of lidar"),
        (["--sequence", "00", "--model", "no.safetensors"], FormatError, "no such model file"),
        (["--sequence", "00", "--map", "map.pcd"], FormatError, "give a name that ends in .ply"),
        (["--sequence", "00", "--map", "nowhere/map.ply"], FormatError, "the folder nowhere does not exist"),
        (["--sequence", "00", "--min-range", 130], InputError, "--min-range is 130.0; it must be smaller than --max-range 120.0"),
    ]:
        result = run("data", *arguments, code=1)
        assert isinstance(result.exception, kind), result.output
        assert said in str(result.exception)
    assert not Path("results").exists()
    assert "no such file or folder" in str(run("nowhere", code=1).exception)
    assert "'--against'" in run("data", "--against", "moon", code=2).output
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("")
    result = run("data", "--sequence", "00", "--out", "taken", code=1)
    assert "taken: already exists and was not written by `poli odometry`; give another folder" in str(result.exception)


def test_options_reach_the_dataset(tmp_path, sweeps, monkeypatch):
    seen = {}

    def factory(path, **options):
        seen.update(options)
        return Scans(sweeps[:1])

    monkeypatch.setitem(datasets._FACTORIES, "memory", factory)
    options = "--topic /a=b --sensor 12 --option min_range=2.5 --option poses=False --option beams=16 --sequence 07"
    run(tmp_path, "--dataset", "memory", "--out", tmp_path / "run", "--model", "pca", *options.split())
    assert seen == {"topic": "/a=b", "sensor": "12", "min_range": 2.5, "poses": False, "beams": 16, "sequence": "07"}


# --- the picture


@pytest.mark.parametrize("count", [1, 2])
def test_the_picture_of_a_short_run_needs_no_matplotlib(tmp_path, drive, sweeps, open_as_memory, monkeypatch, count):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    open_as_memory(Scans(sweeps[:count], drive.poses[:count]))
    result, _ = in_memory(tmp_path, "--model", "pca")
    image = read_picture(tmp_path / "run" / "trajectory.png")
    assert image.shape[0] > 500
    assert drawn_share(image) > 0.01
    assert "trajectory.png" in result.output

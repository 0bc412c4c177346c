"""`poli odometry`: failures leave nothing behind, --overwrite removes only an earlier run; messages, and the picture."""

import json
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import poli
from odometry_runs import COUNT, VOXEL, Scans, in_memory, run
from pictures import drawn_share, read_picture
from poli.errors import FormatError, InputError, WriteError
from poli.io import datasets
from poli.io.datasets import Skipped, write_kitti
from poli.io.trajectory_files import TrajectoryWriter, read_kitti
from poli.lidar_odometry.run_folder import read_steps
from poli.scan import Scan

PCA = "--model", "pca"


def memory(*arguments, code=0):
    return run(".", "--dataset", "memory", "--voxel", VOXEL, *PCA, *arguments, code=code)


def unreadable(_):
    raise FormatError("000000.bin: 7 bytes are not a multiple of 16")


def interrupted(_):
    signal.raise_signal(signal.SIGINT)
    raise KeyboardInterrupt


FAILURES = {
    "an unreadable scan": (lambda sweeps: Scans(sweeps, before=unreadable), 1, "7 bytes"),
    "too few returns": (lambda sweeps: Scans([Scan(np.ones((5, 3))), *sweeps]), 1, "the first scan needs at least 64 points"),
    "an interrupt": (lambda sweeps: Scans(sweeps, before=interrupted), 130, ""),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_run_that_fails_at_its_first_scan_leaves_nothing(tmp_path, monkeypatch, sweeps, open_as_memory, kind):
    make, code, said = FAILURES[kind]
    monkeypatch.chdir(tmp_path)
    open_as_memory(make(sweeps))
    for arguments in ([], ["--out", "run"], ["--out", "run", "--map", "run/map.ply"], ["--map", "map.ply"]):
        result = memory(*arguments, code=code)
        assert said in str(result.exception)
        assert not list(tmp_path.iterdir())
    (tmp_path / "mine").mkdir()  # an empty folder of the user stays
    memory("--out", "mine", code=code)
    assert not list((tmp_path / "mine").iterdir())


def test_a_run_that_fails_at_its_first_scan_changes_no_earlier_run(tmp_path, monkeypatch, sweeps, open_as_memory):
    monkeypatch.chdir(tmp_path)
    open_as_memory(Scans(sweeps[:2]))
    memory()
    latest = tmp_path / "results" / "odometry" / "memory" / "latest"
    before = latest.resolve()
    open_as_memory(Scans(sweeps, before=unreadable))
    memory(code=1)
    assert latest.resolve() == before  # neither moved nor dangling
    memory("--out", before, "--overwrite", code=1)
    assert len(read_kitti(before / "poses_kitti.txt")) == 2  # kept until there is a new one


def test_a_run_whose_first_pose_cannot_be_written_leaves_nothing(tmp_path, monkeypatch, sweeps, open_as_memory):
    def full(*_):
        raise WriteError("poses_tum.txt: cannot be written: No space left on device")

    open_as_memory(Scans(sweeps))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TrajectoryWriter, "append", full)
    assert isinstance(memory("--out", "run", code=1).exception, WriteError)
    memory(code=1)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()]
    assert not (tmp_path / "run").exists()
    assert not list((tmp_path / "results" / "odometry" / "memory").iterdir())


def test_a_run_can_be_overwritten_on_request(tmp_path, monkeypatch, drive, sweeps, open_as_memory):
    monkeypatch.chdir(tmp_path)
    open_as_memory(Scans(sweeps[:4], drive.poses))
    memory("--out", "run", "--map", "run/drive.ply")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    result = memory("--out", "run", code=1)
    assert "run: already exists; give another folder, or pass overwrite=True" in str(result.exception)
    assert (tmp_path / "run" / "drive.ply").is_file()

    open_as_memory(Scans(sweeps[:2]))
    memory("--out", "run", "--overwrite")
    assert len(read_kitti(tmp_path / "run" / "poses_kitti.txt")) == 2
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["scans_done"] == 2
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert not {"truth_kitti.txt", "truth_tum.txt", "drive.ply"} & names  # of the earlier run
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "content", [{"letter.txt": "dear"}, {"config.json": "{}"}, {"poses_kitti.txt": "1 0 0 0"}, {"config.json": "x"}]
)
def test_other_folders_are_never_overwritten(tmp_path, monkeypatch, sweeps, open_as_memory, content):
    monkeypatch.chdir(tmp_path)
    open_as_memory(Scans(sweeps[:2]))
    (tmp_path / "mine").mkdir()
    for name, text in content.items():
        (tmp_path / "mine" / name).write_text(text)
    for arguments in ([], ["--overwrite"]):
        result = memory("--out", "mine", *arguments, code=1)
        assert "mine: already exists and was not written by `poli odometry`" in str(result.exception)
    assert {path.name: path.read_text() for path in (tmp_path / "mine").iterdir()} == content


@pytest.mark.parametrize("kind", ["points", "ellipsoids"])
def test_a_run_that_stops_early_writes_the_map_so_far(tmp_path, sweeps, open_as_memory, kind):
    def stop(number):
        if number == 3:
            signal.raise_signal(signal.SIGINT)

    place = tmp_path / "run" / "map.ply"
    open_as_memory(Scans(sweeps, before=stop))
    result, summary = in_memory(tmp_path, *PCA, "--map", place, "--map-kind", kind, "--map-voxel", 0.5, code=130)
    assert summary["scans_done"] == 4 < COUNT
    assert summary["map"] == {
        "path": "map.ply", "kind": kind, "voxel": 0.5, "count": len(poli.read(place)), "bytes": place.stat().st_size
    }  # fmt: skip
    assert f"{kind}, one per voxel of 0.5 m" in result.output


def test_a_map_does_not_replace_a_scan(tmp_path, monkeypatch, sweeps, open_as_memory):
    monkeypatch.chdir(tmp_path)
    open_as_memory(Scans(sweeps[:2]))
    (tmp_path / "data").mkdir()
    poli.write(sweeps[0], tmp_path / "data" / "0.ply")
    before = (tmp_path / "data" / "0.ply").read_bytes()
    result = run("data", *PCA, "--map", "data/0.ply", code=1)
    assert "inside the data" in str(result.exception)
    assert isinstance(run("data", *PCA, "--map", "data", code=1).exception, FormatError)
    assert isinstance(memory("--map-voxel", 0.1, "--map", "a.xyz", code=1).exception, FormatError | InputError)
    assert (tmp_path / "data" / "0.ply").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_an_interrupt_while_the_map_is_written_keeps_the_run(tmp_path, monkeypatch, sweeps, open_as_memory):
    def impatient(*_):
        raise KeyboardInterrupt

    open_as_memory(Scans(sweeps[:3]))
    monkeypatch.setattr("poli.lidar_odometry.drive_map.write_ply_parts", impatient)
    _, summary = in_memory(tmp_path, *PCA, "--map", tmp_path / "map.ply", code=130)
    assert (summary["scans_done"], summary["interrupted"]) == (3, True)
    assert "map" not in summary
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


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
        (["--sequence", "00", "--option", "beams=3"], InputError, "no option 'beams'; it has sequence, poses, correct"),
        (["--sequence", "00", "--option", "sequence=1"], InputError, "given twice"),
        ([], InputError, "00, 01; choose a `sequence`"),
        (["--dataset", "moon"], InputError, "unknown dataset 'moon'"),
        (["--sequence", "00", "--first", 2], InputError, "has 2 scans; the last index is 1"),
        (["--sequence", "00", "--model", "no"], InputError, "expected one of lidar"),
        (["--sequence", "00", "--model", "no.safetensors"], FormatError, "no such model file"),
        (["--sequence", "00", "--map", "map.pcd"], FormatError, "give a name that ends in .ply"),
        (["--sequence", "00", "--map", "nowhere/map.ply"], FormatError, "the folder nowhere does not exist"),
        (["--sequence", "00", "--min-range", 130], InputError, "min_range is 130.0; it must be smaller than max_range"),
    ]:
        result = run("data", *arguments, code=1)
        assert isinstance(result.exception, kind), result.output
        assert said in str(result.exception)
    assert not Path("results").exists()
    assert "no such file or folder" in str(run("nowhere", code=1).exception)
    assert "'--against'" in run("data", "--against", "moon", code=2).output


def test_options_reach_the_dataset(tmp_path, sweeps, monkeypatch):
    seen = {}

    def factory(path, **options):
        seen.update(options)
        return Scans(sweeps[:1])

    monkeypatch.setitem(datasets._FACTORIES, "memory", factory)
    options = "--topic /a=b --sensor 12 --option poses=False --option beams=16 --sequence 07"
    run(tmp_path, "--dataset", "memory", "--out", tmp_path / "run", "--model", "pca", *options.split())
    assert seen == {"topic": "/a=b", "sensor": "12", "poses": False, "beams": 16, "sequence": "07"}


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

"""`poli densify` on files, folders and datasets: layouts, other files, resuming, and messages."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import poli
from poli.cli import app
from poli.densification import DensifyConfig
from poli.densification.resume import engine
from poli.densification.trees import densify_tree, plan_tree
from poli.errors import FormatError, InputError, PoliError
from poli.io.datasets import write_folder, write_kitti
from poli.io.datasets.stamped import LAYOUT as MULRAN
from poli.io.datasets.stamped import packed_layout
from tiny_scans import room
from tiny_sequences import line, random_poses

STAMPS = [1_691_936_557_946_849_180 + i * 100_000_000 for i in range(3)]
SCANS = [replace(room(60, i), stamp=stamp) for i, stamp in enumerate(STAMPS)]
CONFIG = DensifyConfig(per_point=7, max_sigma=1.0, flat=False, max_thickness=None, voxel=0.0)
EVERYWHERE = ("--per-point", "7", "--max-sigma", "1", "--no-flat", "--max-thickness", "0")  # CONFIG as options, without voxel


def run(*words, code=0):
    result = CliRunner().invoke(app, ["densify", *EVERYWHERE, *map(str, words)], catch_exceptions=True)
    if isinstance(result.exception, PoliError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def packed(scan, layout):
    records = np.zeros(len(scan), layout)
    for column, axis in enumerate("xyz"):
        records[axis] = scan.points[:, column]
    for i, name in enumerate(layout.names[3:]):
        records[name] = (np.arange(len(scan)) * (i + 3)) % 200
    return records


def tree_bytes(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "densify.json"
    }


def check_scans(before, after, count=3):
    assert len(before) == len(after) == count
    for scan, dense in zip(before, after, strict=True):
        assert len(dense) == 8 * len(scan)
        np.testing.assert_array_equal(dense.points[: len(scan)], scan.points)
        assert dense.stamp == scan.stamp
        for name, values in scan.fields.items():
            np.testing.assert_array_equal(dense.fields[name], np.concatenate([values, np.repeat(values, 7, axis=0)]))
    if before.poses is not None:
        np.testing.assert_array_equal(before.poses, after.poses)


def kitti(folder):
    write_kitti(folder, 7, SCANS, random_poses(3))
    (folder / "sequences" / "07" / "image_2").mkdir()
    (folder / "sequences" / "07" / "image_2" / "000000.png").write_bytes(bytes(range(256)) * 8192)
    return folder


def test_kitti(tmp_path):
    source, out = kitti(tmp_path / "kitti"), tmp_path / "dense"
    said = run(source, out, "--voxel", 0)
    assert "3 of 3 scans" in said
    assert "points: 180 in, 1440 out, 8.00 times" in said
    check_scans(poli.dataset("kitti", source), poli.dataset("kitti", out))
    before, after = tree_bytes(source), tree_bytes(out)
    assert before.keys() == after.keys()
    for name, data in before.items():
        assert after[name][: len(data)] == data
        assert (len(after[name]) == len(data)) == ("velodyne" not in name)
    picture, times = "sequences/07/image_2/000000.png", "sequences/07/times.txt"
    assert os.path.samefile(source / picture, out / picture)  # large
    assert not os.path.samefile(source / times, out / times)
    told = json.loads((out / "densify.json").read_text())
    assert told["voxel"] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dense", "kitti"]


@pytest.mark.parametrize("sensor", ["velodyne", "ouster", "aeva", "avia"])
@pytest.mark.parametrize("stamps", [STAMPS, [10, 20, 30]])
def test_helipr(tmp_path, sensor, stamps):
    source, out = tmp_path / "Town01", tmp_path / "dense"
    for name in ("velodyne", sensor):
        (source / "LiDAR" / name.capitalize()).mkdir(parents=True, exist_ok=True)
        for stamp, scan in zip(stamps, SCANS, strict=True):
            packed(scan, packed_layout(name, stamp)).tofile(source / "LiDAR" / name.capitalize() / f"{stamp}.bin")
    (source / "LiDAR_GT").mkdir()
    rows = (f"{stamp} {i} 0 0 0 0 0 1\n" for i, stamp in enumerate(stamps))
    (source / "LiDAR_GT" / f"{sensor.capitalize()}_gt.txt").write_text("".join(rows))
    run(source, out, "--voxel", 0, "--sensor", sensor)
    options = {"sensor": sensor}
    check_scans(poli.dataset("helipr", source, **options), poli.dataset("helipr", out, **options))
    if sensor != "velodyne":
        assert tree_bytes(out / "LiDAR" / "Velodyne") == tree_bytes(source / "LiDAR" / "Velodyne")


def test_mulran(tmp_path):
    source, out = tmp_path / "DCC01", tmp_path / "dense"
    (source / "Ouster").mkdir(parents=True)
    for stamp, scan in zip(STAMPS, SCANS, strict=True):
        records = packed(scan, MULRAN)
        records[:5] = 0  # missing returns are kept and have no samples
        records.tofile(source / "Ouster" / f"{stamp}.bin")
    (source / "global_pose.csv").write_text("".join(f"{s},{line(np.eye(4)).replace(' ', ',')}\n" for s in STAMPS))
    run(source, out, "--voxel", 0)
    check_scans(poli.dataset("mulran", source), poli.dataset("mulran", out))
    assert np.fromfile(out / "Ouster" / f"{STAMPS[0]}.bin", MULRAN).shape == (60 + 7 * 55,)


def test_selected_kitti_sequences(tmp_path):
    source = kitti(tmp_path / "kitti")
    write_kitti(source, 8, SCANS[:2], random_poses(2))
    write_kitti(source, "street", SCANS[:1], random_poses(1))
    (source / "readme.txt").write_text("hello")
    said = run(source, tmp_path / "dense", "--voxel", 0, "--sequence", 7, "--sequence", "street")
    assert "4 of 4 scans" in said
    before, after = tree_bytes(source), tree_bytes(tmp_path / "dense")
    assert set(after) == {name for name in before if "08" not in name}
    for sequence, count in (("07", 3), ("street", 1)):
        scans = [poli.dataset("kitti", folder, sequence=sequence) for folder in (source, tmp_path / "dense")]
        check_scans(*scans, count=count)
    run(source, tmp_path / "all", "--voxel", 0)
    assert {name: after[name] for name in after} == {
        name: data for name, data in tree_bytes(tmp_path / "all").items() if name in after
    }
    assert json.loads((tmp_path / "dense" / "densify.json").read_text())["sequences"] == ["07", "street"]
    with pytest.raises(FormatError, match=r"was written with other settings \(sequences\)"):
        run(source, tmp_path / "dense", "--voxel", 0, "--sequence", "08")
    run(source, tmp_path / "dense", "--voxel", 0, "--sequence", "08", "--overwrite")
    assert set(tree_bytes(tmp_path / "dense")) == {name for name in before if "07" not in name and "street" not in name}
    with pytest.raises(InputError, match=r"no sequence '09'.* there are 07, 08, street"):
        run(source, tmp_path / "b", "--sequence", "9")
    with pytest.raises(InputError, match=r"no sequence '07'.* there are none"):
        run(source / "sequences" / "07", tmp_path / "b", "--sequence", "07")
    (source / "dataset").mkdir()  # as KITTI's archives are extracted
    for name in ("sequences", "poses"):
        (source / name).rename(source / "dataset" / name)
    run(source, tmp_path / "unpacked", "--voxel", 0, "--sequence", "8")
    assert {name for name in tree_bytes(tmp_path / "unpacked") if "velodyne" in name} == {
        f"dataset/sequences/08/velodyne/00000{i}.bin" for i in range(2)
    }


@pytest.mark.parametrize(("kind", "place"), [("mulran", "Ouster"), ("mulran", "sensor_data/Ouster"), ("helipr", "LiDAR/Avia")])
def test_sequences_that_are_folders(tmp_path, kind, place):
    layout = MULRAN if kind == "mulran" else packed_layout("avia", STAMPS[0])
    source = tmp_path / "all"
    for name in ("DCC01", "DCC02"):
        (source / name / place).mkdir(parents=True)
        (source / name / "notes.txt").write_text(name)
        packed(SCANS[0], layout).tofile(source / name / place / f"{STAMPS[0]}.bin")
    (source / "extrinsics").mkdir()
    (source / "extrinsics" / "base.txt").write_text("of both")
    assert "1 of 1 scans" in run(source, tmp_path / "dense", "--voxel", 0, "--sequence", "DCC02")
    assert set(tree_bytes(tmp_path / "dense")) == {f"DCC02/{place}/{STAMPS[0]}.bin", "DCC02/notes.txt", "extrinsics/base.txt"}
    scans = [poli.dataset(kind, folder, sequence="DCC02", **({"sensor": "avia"} if kind == "helipr" else {}))
             for folder in (source, tmp_path / "dense")]  # fmt: skip
    check_scans(*scans, count=1)
    with pytest.raises(InputError, match=r"no sequence 'DCC03'.* there are DCC01, DCC02"):
        run(source, tmp_path / "b", "--dataset", kind, "--sequence", "DCC03")


def test_our_own_folder_format_keeps_every_field(tmp_path):
    source, out = tmp_path / "ours", tmp_path / "dense"
    write_folder(source, "ours", SCANS, random_poses(3), about={"sensor": "none"})
    run(source, out, "--voxel", 0)
    check_scans(poli.dataset("poli", source), poli.dataset("poli", out))


@pytest.mark.parametrize("ending", [".npz", ".pcd", ".bin", ".pcd.bin"])
def test_plain_folders_and_files(tmp_path, ending):
    source, out = tmp_path / "scans", tmp_path / "dense"
    (source / "notes").mkdir(parents=True)
    (source / "notes" / "read.me").write_text("hello")
    names = {".bin": ["intensity"], ".pcd.bin": ["intensity", "ring"]}.get(ending, list(SCANS[0].fields))
    for i, scan in enumerate(SCANS):
        poli.write(scan.keep(*names), source / f"{i}{ending}")
    (source / f"9{ending}").write_bytes(b"")  # a sweep without returns
    run(source, out, "--voxel", 0)
    check_scans(poli.dataset("folder", source), poli.dataset("folder", out), count=4)
    assert (out / "notes" / "read.me").read_text() == "hello"
    said = run(source / f"0{ending}", tmp_path / f"one{ending}", "--voxel", 0)
    assert "60 points in, 480 out" in said
    assert (tmp_path / f"one{ending}").read_bytes() == (out / f"0{ending}").read_bytes()


def test_a_bin_folder_keeps_the_layout_inferred_from_its_values(tmp_path):
    (tmp_path / "scans").mkdir()
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(1200, 3)) * [20.0, 20.0, 1.0], rng.integers(0, 99, 1200), np.arange(1200) % 32])
    rows.astype("<f4").tofile(tmp_path / "scans" / "0.bin")  # nuScenes' five columns, in a size that also fits KITTI's four
    run(tmp_path / "scans", tmp_path / "dense")
    dense = np.fromfile(tmp_path / "dense" / "0.bin", "<f4").reshape(-1, 5)
    np.testing.assert_array_equal(dense[:1200], rows.astype("<f4"))


def test_scans_without_samples_are_reported_once(tmp_path):
    source = kitti(tmp_path / "kitti")
    with pytest.warns(UserWarning, match=r"^3 of 3 scans are unchanged\. The first: ") as caught:
        said = run(source, tmp_path / "dense", "--voxel", 100)
    assert len(caught) == 1
    assert "points: 180 in, 180 out, 1.00 times" in said


def test_a_stopped_run_resumes_and_says_so(tmp_path):
    source, out, whole = kitti(tmp_path / "kitti"), tmp_path / "dense", tmp_path / "whole"
    run(source, whole, "--voxel", 0)
    tree = plan_tree(source, out)
    with engine() as here:
        steps = densify_tree(tree, source, out, CONFIG, here)
        assert next(steps).scans == 1
        with pytest.raises(FormatError, match="another run is writing it"):
            next(densify_tree(tree, source, out, CONFIG, here))
        steps.close()  # as Ctrl-C does
    assert not out.exists()
    (first,) = (tmp_path / "dense.partial/new/sequences/07/velodyne").iterdir()
    made = first.stat().st_mtime_ns
    with pytest.raises(FormatError, match=r"partial: was written with other settings \(voxel\); .* --overwrite"):
        run(source, out)
    assert "3 of 3 scans, 1 already done" in run(source, out, "--voxel", 0)
    assert (out / "sequences/07/velodyne" / first.name).stat().st_mtime_ns == made
    assert tree_bytes(out) == tree_bytes(whole)
    assert "3 already done" in run(source, out, "--voxel", 0)
    (source / "sequences/07/velodyne/000003.bin").write_bytes((source / "sequences/07/velodyne/000002.bin").read_bytes())
    assert "4 of 4 scans, 3 already done" in run(source, out, "--voxel", 0)
    assert not (tmp_path / "dense.partial").exists()
    (source / "sequences/07/velodyne/000003.bin").unlink()
    with pytest.raises(FormatError, match=r"was written with other settings \(per_point, voxel\); .* --overwrite"):
        run(source, out, "--per-point", 3)
    run(source, out, "--per-point", 3, "--voxel", 0, "--overwrite")
    assert len(poli.dataset("kitti", out)[0]) == 4 * 60


def test_interrupts_take_effect_between_scans(tmp_path, monkeypatch):
    from poli.densification import trees

    source, out = kitti(tmp_path / "kitti"), tmp_path / "dense"
    work = trees.densify_file
    monkeypatch.setattr(trees, "densify_file", lambda *a, **k: os.kill(os.getpid(), signal.SIGTERM) or work(*a, **k))
    assert "interrupted after 1 of 3 scans; run it again to resume" in run(source, out, "--workers", 1, code=128 + signal.SIGTERM)


def test_two_processes_write_the_same_bytes_and_report_the_same_errors(tmp_path, two_processes):
    source, one, two = kitti(tmp_path / "kitti"), tmp_path / "one", tmp_path / "two"
    run(source, one, "--voxel", 0, "--workers", 1)
    assert [tally.scans for tally in densify_tree(plan_tree(source, two), source, two, CONFIG, two_processes)][-1] == 3
    assert tree_bytes(one) == tree_bytes(two)
    (source / "sequences/07/velodyne/000001.bin").write_bytes(b"1234567")
    with engine() as here:
        for i, doer in enumerate((here, two_processes)):
            out = tmp_path / f"dense{i}"
            with pytest.raises(FormatError, match=r"000001\.bin: 7 bytes are not a multiple of 16"):
                list(densify_tree(plan_tree(source, out), source, out, CONFIG, doer))
            assert not out.exists()


def test_workers_exit_with_their_parent_process():
    code = (
        "import os, signal\nfrom poli.densification.resume import engine\n"
        "if __name__ == '__main__':\n"
        "    with engine(2) as pool:\n"
        "        print(pool.submit(int, 3).result(), *pool.submit.__self__._processes, flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    answer, *workers = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout.split()
    assert answer == "3"
    limit = time.monotonic() + 10.0
    while any(Path("/proc", pid, "cmdline").exists() and Path("/proc", pid, "cmdline").read_bytes() for pid in workers):
        assert time.monotonic() < limit, f"{workers} still run"
        time.sleep(0.1)


def test_bad_input(tmp_path):
    source = kitti(tmp_path / "kitti")
    scan = tmp_path / "a.npz"
    poli.write(SCANS[0], scan)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("")
    for words, kind, message in [
        ((source, source), FormatError, "are the same"),
        ((source, source / "dense"), FormatError, "inside each other"),
        ((source, tmp_path / "full"), FormatError, "full: already exists and was not written by poli densify"),
        ((source, tmp_path / "no" / "dense"), FormatError, r"folder .*no does not exist"),
        ((tmp_path / "nothing", tmp_path / "b"), FormatError, "no such file or folder"),
        ((scan, scan), FormatError, "are the same"),
        ((scan, tmp_path / "b.teapot"), FormatError, r"b\.teapot: unknown"),
        ((source, tmp_path / "b", "--dataset", "tum"), InputError, "--dataset tum: expected auto"),
        ((source, tmp_path / "b", "--dataset", "poli"), FormatError, r"no dataset\.json"),
        ((source, tmp_path / "b", "--dataset", "mulran"), FormatError, "no scans found in this mulran tree"),
        ((source, tmp_path / "b", "--topic", "/p"), InputError, "--topic /p: .* remove it"),
        ((source, tmp_path / "b", "--sensor", "avia"), InputError, "--sensor avia: .* remove it"),
        (
            (scan.parent / "full", tmp_path / "b", "--dataset", "folder", "--sequence", "07"),
            InputError,
            "--sequence 07: .* remove it",
        ),
        ((source, tmp_path / "b", "--model", "teapot"), InputError, "model is 'teapot'"),
    ]:
        with pytest.raises(kind, match=message):
            run(*words)
        assert not (tmp_path / "b").exists()

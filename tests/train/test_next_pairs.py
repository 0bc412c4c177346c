"""The paper's training: consecutive scans streamed from disk, fixed sets of pairs, epochs; on tiny datasets in real layouts."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from poli.cli import app
from poli.errors import FormatError, InputError
from poli.io.datasets import FileDataset, write_kitti
from poli.se3 import inverse
from poli.voxels import voxel_downsample
from poli.worlds.shapes import procedural_mesh

torch = pytest.importorskip("torch")
from poli.train import checkpoint  # noqa: E402
from poli.train.config import DatasetConfig, PairConfig, ScanConfig, StageConfig, TrainConfig, read_config  # noqa: E402
from poli.train.epochs import drawn  # noqa: E402
from poli.train.next_pairs import next_source  # noqa: E402
from poli.train.object_pairs import ObjectSource  # noqa: E402
from poli.train.trainer import learning_rate, train  # noqa: E402
from tiny_training import ARCHITECTURES, COUNT, SCANNED, town_drive  # noqa: E402

VOXEL = 0.5
PAPER = Path(__file__).parents[2] / "configs" / "paper"
TOML = (
    f"""
name = "next"
[scans]
partner = "next"
worlds = 0
validation_worlds = 0
points = 0
[[scans.datasets]]
kind = "helipr"
path = "."
sequences = ["Town01", "Bridge01"]
sensor = "velodyne"
voxel = {VOXEL}
[schedule]
workers = 3
warmup = 0
final_fraction = 1.0
clip = 0.0
log_every = 1
checkpoint_every = 3
[shapes]
epochs = 2
learning_rate = 1e-3
average = 0.0
[sizes]
steps = 0
"""
    + SCANNED
)
_PACKED = np.dtype([(axis, "<f4") for axis in ("x", "y", "z", "intensity")] + [("ring", "<u2"), ("time", "<f4")])


@pytest.fixture(scope="module")
def drive():  # scans and their poses
    return SimpleNamespace(scans=list(town_drive()), poses=town_drive().poses)


@pytest.fixture(scope="module")
def helipr(tmp_path_factory, drive):
    """Two sequences in HeLiPR's layout, whose poses are quaternions."""
    root = tmp_path_factory.mktemp("helipr")
    for sequence in ("Town01", "Bridge01"):
        folder, poses = root / sequence / "LiDAR" / "Velodyne", root / sequence / "LiDAR_GT"
        folder.mkdir(parents=True)
        poses.mkdir()
        lines = []
        for row, (scan, T) in enumerate(zip(drive.scans, drive.poses, strict=True)):
            records = np.zeros(len(scan), _PACKED)
            for column, axis in enumerate("xyz"):
                records[axis] = scan.points[:, column]
            stamp = 10**18 + row * 10**8
            records.tofile(folder / f"{stamp}.bin")
            w = 0.5 * np.sqrt(max(0.0, 1.0 + np.trace(T[:3, :3])))  # far from half a turn here
            v = np.array([T[2, 1] - T[1, 2], T[0, 2] - T[2, 0], T[1, 0] - T[0, 1]]) / (4.0 * w)
            lines.append(f"{stamp} {' '.join(f'{x:.17g}' for x in (*T[:3, 3], *v, w))}\n")
        (poses / "Velodyne_gt.txt").write_text("".join(lines))
    return root


def config_of(folder, kind, **more):
    dataset = DatasetConfig(".", kind, voxel=VOXEL, **more)
    return ScanConfig(partner="next", worlds=0, validation_worlds=0, points=0, datasets=(dataset,), max_distance=0.7)


def test_pairs_are_the_scans_as_given(tmp_path, drive):
    """Against a slow reading of the same description, in KITTI's layout."""
    write_kitti(tmp_path, "00", drive.scans, drive.poses)
    write_kitti(tmp_path, "01", drive.scans, drive.poses)
    source = next_source(config_of(tmp_path, "kitti", sequences=("00",), stride=2), ARCHITECTURES[2], 0, tmp_path)
    assert source.samples == len(drive.scans) - 2 * 2 - 1 == len(set(drawn(0, source.samples, 0, source.samples)))
    batch = source.draw(np.random.default_rng(0), "shapes", 5)
    row = drawn(0, source.samples, 5, 1)[0]
    q, p = (voxel_downsample(drive.scans[r].keep(), VOXEL).points.astype(float) for r in (row, row + 2))
    T = inverse(drive.poses[row]) @ drive.poses[row + 2]
    np.testing.assert_allclose(batch.matches.target[0], q, atol=1e-5)
    np.testing.assert_allclose(batch.matches.T_measured[0], T, atol=1e-9)
    np.testing.assert_array_equal(batch.matches.T_measured, batch.T_true)
    apart = np.linalg.norm(q[:, None] - (p @ T[:3, :3].T + T[:3, 3]), axis=2)  # every pair of points
    np.testing.assert_array_equal(batch.matches.weights[0] > 0, apart.min(axis=1) <= 0.7)
    np.testing.assert_allclose(batch.matches.source[0], p[apart.argmin(axis=1)], atol=1e-5)
    assert 0.3 < batch.coverage < 1.0
    assert batch.matches.gamma is None
    assert batch.shrink is None
    both = next_source(config_of(tmp_path, "kitti", sequences=("00", "01")), ARCHITECTURES[2], 0, tmp_path)
    assert both.samples == 2 * (len(drive.scans) - 3)
    held = list(both.held_out(1))
    assert len(held) == 2
    np.testing.assert_allclose(held[0].T_true[0], inverse(drive.poses[-2]) @ drive.poses[-1], atol=1e-9)


def test_a_step_reads_the_scans_of_its_pair_alone(tmp_path, drive, monkeypatch):
    write_kitti(tmp_path, "00", drive.scans, drive.poses)
    read, before = [], FileDataset._scan
    monkeypatch.setattr(FileDataset, "_scan", lambda self, row: read.append(row) or before(self, row))
    source = next_source(config_of(tmp_path, "kitti"), ARCHITECTURES[2], 1, tmp_path)
    assert read == []
    for number in range(source.samples):
        source.draw(np.random.default_rng(0), "shapes", number)
    starts = read[::2]
    assert read[1::2] == [row + 1 for row in starts]
    assert sorted(starts) == list(range(source.samples))
    assert starts != sorted(starts)
    again = [drawn(1, source.samples, number, 1)[0] for number in range(source.samples, 2 * source.samples)]
    assert sorted(again) == sorted(starts)
    assert again != starts  # another epoch, another order


def test_empty_scans_and_larger_batches(tmp_path, drive):
    scans = [scan.keep() for scan in drive.scans]
    scans[4] = scans[4].select(np.arange(len(scans[4])) < 3)
    write_kitti(tmp_path, "00", scans, drive.poses)
    config = replace(config_of(tmp_path, "kitti"), clouds=3, points=200)
    source = next_source(config, ARCHITECTURES[2], 0, tmp_path)
    batch = source.draw(np.random.default_rng(0), "curvature", 0)
    assert batch.matches.target.shape == (3, 200, 3)
    assert batch.around is not None
    usable = [source._usable(sample)[0] for sample in (3, 4)]  # both pairs have the empty scan
    np.testing.assert_array_equal(usable[0].points, usable[1].points)
    np.testing.assert_array_equal(usable[0].points, source._usable(5)[0].points)


def arguments(config, helipr, out):
    return [sys.executable, "-m", "poli", "train", str(config), "--data", str(helipr), "--out", str(out)]


def test_a_killed_run_on_helipr_resumes_to_the_same_tensors(tmp_path, helipr):
    config = tmp_path / "next.toml"
    config.write_text(TOML)
    done = CliRunner().invoke(app, arguments(config, helipr, tmp_path / "whole")[3:])
    assert done.exit_code == 0, (done.output, done.exception)
    steps = 2 * 2 * (COUNT - 3)
    whole = checkpoint.load(tmp_path / "whole" / "checkpoint.safetensors")
    assert whole.step == whole.config.steps == steps
    process = subprocess.Popen(arguments(config, helipr, tmp_path / "killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (tmp_path / "killed" / "checkpoint.safetensors").exists() and process.poll() is None:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 0 < checkpoint.load(tmp_path / "killed" / "checkpoint.safetensors").step < steps
    one = read_config(config)
    train(one, tmp_path / "killed", data=helipr)
    for name in ("checkpoint.safetensors", "model.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()
    # The number of workers does not change the tensors either.
    train(replace(one, schedule=replace(one.schedule, workers=1)), tmp_path / "alone", data=helipr)
    alone = checkpoint.load(tmp_path / "alone" / "checkpoint.safetensors")
    assert all(torch.equal(alone.tensors[name], whole.tensors[name]) for name in whole.tensors)


def test_absent_data_is_explained(tmp_path, helipr, drive):
    config = tmp_path / "next.toml"
    config.write_text(TOML)
    with pytest.raises(FormatError, match=r"Town01.*expected there: SEQUENCE/LiDAR/Velodyne.*LiDAR_GT"):
        train(read_config(config), tmp_path / "run", data=tmp_path)
    config.write_text(TOML.replace('path = "."', 'path = "helipr"'))
    with pytest.raises(FormatError, match=r"helipr: no such folder; expected there: SEQUENCE.*--data"):
        train(read_config(config), tmp_path / "run", data=tmp_path)
    refused = CliRunner().invoke(app, ["train", str(config), "--data", str(tmp_path / "none")])
    assert "no such folder; give the one that holds the datasets" in str(refused.exception)
    with pytest.raises(FormatError, match=r"bunny.ply: no such file; .*armadillo.*--data"):
        train(read_config(PAPER / "objects.toml"), tmp_path / "run", data=tmp_path)
    write_kitti(tmp_path, "00", drive.scans[:2], drive.poses[:2])
    with pytest.raises(InputError, match="has 2 scans; 3 are needed"):
        next_source(config_of(tmp_path, "kitti"), ARCHITECTURES[2], 0, tmp_path)
    (tmp_path / "poses" / "00.txt").unlink()
    with pytest.raises(InputError, match="no poses"):
        next_source(config_of(tmp_path, "kitti"), ARCHITECTURES[2], 0, tmp_path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ScanConfig(partner="last"), "scans.partner is 'last'; expected one of survey, next"),
        (lambda: ScanConfig(partner="next", datasets=(DatasetConfig("a"),)), "set scans.worlds = 0"),
        (lambda: ScanConfig(datasets=(DatasetConfig("a", voxel=0.5),)), "voxel and stride need"),
        (lambda: ScanConfig(points=0), "scans.points is 0"),
        (lambda: DatasetConfig("a", stride=0), "a stride of at least 1"),
        (lambda: PairConfig(samples=3, clouds=2), "one N per step"),
        (lambda: StageConfig(3, epochs=1), "give one of them"),
        (lambda: TrainConfig(shapes=StageConfig(epochs=1)), "epochs need a fixed set of samples"),
    ],
)
def test_contradictions_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


# --- Objects


def objects(folder: Path) -> TrainConfig:
    """The paper's configuration, with our smallest network, few pairs and one mesh, which is written to the folder."""
    mesh = procedural_mesh(3, 24)
    rows = [*(f"v {x} {y} {z}" for x, y, z in mesh.vertices), *(f"f {a} {b} {c}" for a, b, c in mesh.faces + 1)]
    (folder / "one.obj").write_text("\n".join(rows))
    config = read_config(PAPER / "objects.toml")
    data = replace(config.data, meshes=("one.obj",), procedural=1, resolution=24, validation_procedural=1)
    return replace(
        config, data=data, pairs=replace(config.pairs, points=(64, 96), samples=3), architecture=ARCHITECTURES[0],
        shapes=replace(config.shapes, epochs=2),
    )  # fmt: skip


def test_objects_have_a_fixed_set_of_pairs(tmp_path):
    config = objects(tmp_path)
    source = ObjectSource(config, tmp_path, lambda *_: None)
    assert source.samples == 2 * 2 * 3
    epochs = [
        [source.draw(np.random.default_rng(n), "shapes", n) for n in range(start, start + source.samples)]
        for start in (0, source.samples)
    ]
    clouds = [{batch.matches.target.numpy().tobytes(): batch for batch in epoch} for epoch in epochs]
    assert len(clouds[0]) == source.samples
    assert clouds[0].keys() == clouds[1].keys()
    assert [len(batch.matches.target[0]) for batch in epochs[0]] != [len(batch.matches.target[0]) for batch in epochs[1]]
    assert sorted(len(batch.matches.target[0]) for batch in epochs[0]) == [64] * 6 + [96] * 6
    for batch in epochs[0]:
        np.testing.assert_array_equal(batch.T_true, batch.matches.T_measured)  # exact poses
        assert batch.matches.source.shape == batch.matches.target.shape  # a partner as dense as the cloud, one each
        assert batch.matches.weights.all()
        assert batch.shrink is None
        angle = np.degrees(np.arccos(0.5 * (np.trace(batch.T_true[0, :3, :3]) - 1.0)))
        assert angle <= 60.0
        other = clouds[1][batch.matches.target.numpy().tobytes()]
        np.testing.assert_array_equal(batch.matches.source, other.matches.source)
    assert source.growth == 0.0


def test_the_network_sees_objects_turned(tmp_path):
    config = objects(tmp_path)
    still = replace(config, pairs=replace(config.pairs, max_turn=0.0))
    mesh = ObjectSource(still, tmp_path, lambda *_: None)._surfaces.all[0]
    for one, tilted in ((still, False), (config, True)):
        source = ObjectSource(one, tmp_path, lambda *_: None)
        batch = source.draw(np.random.default_rng(0), "shapes", 1)
        normals = batch.normals[0]
        faces = np.concatenate([m.area_vectors / m.areas[:, None] for m in source._surfaces.all])
        apart = np.array([np.abs(faces - n).max(axis=1).min() for n in normals])
        assert (apart.max() > 1e-3) == tilted, mesh


def test_the_objects_of_the_paper_with_another_network(tmp_path):
    config = objects(tmp_path)
    model = train(config, tmp_path / "run", data=tmp_path)
    state = checkpoint.load(tmp_path / "run" / "checkpoint.safetensors")
    assert state.step == 2 * 2 * 2 * 3
    assert state.config == config.in_steps(12, 1)
    assert {learning_rate(state.config, step) for step in range(state.step)} == {1e-4}
    assert train(config, tmp_path / "run", data=tmp_path) == model
    for name, value in checkpoint.part(state.tensors, "average").items():
        assert torch.equal(value, state.tensors[f"network.{name}"])  # no average


# --- The configurations


@pytest.mark.parametrize("path", sorted(PAPER.glob("*.toml")), ids=lambda path: path.stem)
def test_configurations_of_the_paper(path):
    config = read_config(path)
    assert TrainConfig.from_json(config.to_json()) == config
    assert f"poli train configs/paper/{path.name} --data DIR" in path.read_text()
    loss, schedule = config.loss, config.schedule
    likelihood = "tqc" if path.stem.endswith("_tqc") else "ttqc"
    assert (loss.kind, loss.outliers, loss.tail, loss.visibility) == (likelihood, 0.0, 0.0, 0.0)
    assert (schedule.processes, schedule.clip, schedule.weight_decay, schedule.warmup, schedule.final_fraction) == (1, 0, 0, 0, 1)
    assert (config.shapes.learning_rate, config.shapes.average) == (1e-4, 0.0)
    assert config.sizes.steps == config.curvature.steps == 0
    if config.scans is None:
        assert config.in_steps(5 * 2 * 300, 1).steps == 30_000
        added = (config.pairs.noise, config.pairs.translation_noise, config.pairs.rotation_noise, config.pairs.zoom - 1.0)
        assert added == (0.0, 0.0, 0.0, 0.0)
        assert (config.pairs.partner_density, config.pairs.partners, config.pairs.clouds) == (1.0, 1, 1)
    elif path.stem.startswith("kitti"):
        (dataset,) = config.scans.datasets
        assert (dataset.kind, dataset.voxel, config.in_steps(263, 1).steps) == ("kitti", 1.0, 789)
    else:
        sensor, voxel = path.stem.removesuffix("m").split("_")
        (dataset,) = config.scans.datasets
        assert (dataset.sensor, dataset.voxel) == ({"vlp16": "velodyne", "os2": "ouster"}[sensor], float(voxel))
        assert config.scans.clouds == dataset.stride == 1
        epochs = {"vlp16": {0.2: 12, 0.5: 12, 1.0: 21}, "os2": {1.0: 11, 1.5: 11, 2.0: 14}}[sensor][dataset.voxel]
        assert config.in_steps(100, 1).steps == 100 * epochs

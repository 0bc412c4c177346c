"""The trainer: exactly resumable, in one process or two, with validated configurations and readable logs."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from poli.errors import FormatError, InputError, PoliError
from poli.estimation.model import read_model

torch = pytest.importorskip("torch")
from safetensors.torch import load_file  # noqa: E402

from poli.io.tables import read_log  # noqa: E402
from poli.train import checkpoint  # noqa: E402
from poli.train.config import StageConfig, TrainConfig, read_config  # noqa: E402
from poli.train.trainer import Listener, learning_rate, train  # noqa: E402
from poli.viewer.plots import draw_curve  # noqa: E402
from tiny_training import tiny  # noqa: E402


def arguments(config: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "poli", "train", str(config), "--out", str(out)]


def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(tmp_path):
    config = tiny(tmp_path, 60)
    whole = subprocess.run(arguments(config, tmp_path / "whole"), capture_output=True, text=True, check=False)
    assert whole.returncode == 0, whole.stderr[-2000:]
    out = tmp_path / "killed"
    process = subprocess.Popen(arguments(config, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (out / "checkpoint.safetensors").exists() and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed_at = checkpoint.load(out / "checkpoint.safetensors").step
    assert 0 < killed_at < 60
    assert not (out / "model.safetensors").exists()
    resumed = subprocess.run(arguments(config, out), capture_output=True, text=True, check=False)
    assert resumed.returncode == 0, resumed.stderr[-2000:]
    for name in ("checkpoint.safetensors", "model.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()
    assert not list(out.glob(".*"))  # no files of the killed process are left
    rows = read_log(out / "log.csv")
    assert [int(row["step"]) for row in rows] == list(range(1, 61))
    assert [row["loss"] for row in rows] == [row["loss"] for row in read_log(tmp_path / "whole" / "log.csv")]


def test_two_processes_keep_equal_parameters(tmp_path):
    config = tiny(tmp_path, 6)
    script = tmp_path / "rank.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from safetensors.torch import save_file\n"
        "from poli.train.config import read_config\n"
        "from poli.train.trainer import Listener, Run, process_group\n"
        "with process_group() as processes:\n"
        "    run = Run(read_config(sys.argv[1]), Path(sys.argv[2]), Listener(), False, processes, Path())\n"
        "    run.finish()\n"
        "    parameters = {name: p.detach().clone() for name, p in run.model.named_parameters()}\n"
        "    save_file(parameters, f'{sys.argv[2]}/rank{processes.rank}.safetensors')\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(config), str(tmp_path / "run")], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (load_file(tmp_path / "run" / f"rank{rank}.safetensors") for rank in range(2))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    # `poli train` starts the second process itself.
    config.write_text(config.read_text().replace("[schedule]", "[schedule]\nprocesses = 2"))
    done = subprocess.run(arguments(config, tmp_path / "both"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    both = checkpoint.part(load_file(tmp_path / "both" / "checkpoint.safetensors"), "network")
    assert all(torch.equal(first[f"network.{name}"], both[name]) for name in both)
    train(read_config(config), tmp_path / "alone")  # a single process saw half of the batches, so it must differ
    alone = checkpoint.part(load_file(tmp_path / "alone" / "checkpoint.safetensors"), "network")
    assert any(not torch.equal(first[f"network.{name}"], alone[name]) for name in alone)


def test_training_lowers_the_loss_and_writes_its_files(tmp_path):
    steps: list[float] = []

    class Recorder(Listener):
        def step(self, report, total):
            steps.append(report.loss)
            assert report.certified > 0.5
            assert min(report.grouping_ms, report.network_ms, report.layer_ms, report.backward_ms) > 0.0

    config = read_config(tiny(tmp_path, 80))
    model = train(config, tmp_path / "run", Recorder())
    assert len(steps) == 80
    assert draw_curve(tmp_path / "run").read_bytes().startswith(b"\x89PNG")
    validation = read_log(tmp_path / "run" / "validation.csv")
    assert float(validation[-1]["loss"]) < float(validation[0]["loss"])
    loaded = read_model(model)
    assert loaded.metadata["steps"] == "80"
    assert TrainConfig.from_json(loaded.metadata["config"]) == config
    assert 0.2 < loaded.calibration < 5.0
    # Restarting a finished run has nothing to do and changes nothing.
    before = model.read_bytes()
    train(config, tmp_path / "run")
    assert model.read_bytes() == before


def test_another_configuration_does_not_continue_a_run(tmp_path):
    config = read_config(tiny(tmp_path, 4))
    train(config, tmp_path / "run")
    with pytest.raises(InputError, match="another configuration"):
        train(replace(config, seed=9), tmp_path / "run")
    train(replace(config, seed=9), tmp_path / "run", fresh=True)
    state = checkpoint.load(tmp_path / "run" / "checkpoint.safetensors")
    assert state.config.seed == 9
    checkpoint.save(tmp_path / "run" / "checkpoint.safetensors", replace(state, world=2))
    with pytest.raises(InputError, match="2 processes"):
        train(state.config, tmp_path / "run")


def test_a_run_can_start_from_a_model(tmp_path):
    config = read_config(tiny(tmp_path, 4))
    first = train(config, tmp_path / "first")
    (tmp_path / "again.toml").write_text(f"initial = 'first/model.safetensors'\n{tiny(tmp_path, 1).read_text()}")
    cold = replace(read_config(tmp_path / "again.toml"), shapes=StageConfig(1, 1e-12))
    assert first == tmp_path / cold.initial
    train(cold, tmp_path / "second", beside=tmp_path)
    started, expected = (load_file(tmp_path / run / "model.safetensors") for run in ("second", "first"))
    for name in expected:
        torch.testing.assert_close(started[name], expected[name])
    with pytest.raises(InputError, match="another architecture"):
        train(replace(cold, architecture=replace(cold.architecture, head=3)), tmp_path / "third", beside=tmp_path)


def test_divergence_is_reported_and_ends_the_run(tmp_path):
    warnings: list[str] = []

    class Recorder(Listener):
        def warning(self, text):
            warnings.append(text)

    config = read_config(tiny(tmp_path, 80))
    hot = replace(config, schedule=replace(config.schedule, warmup=0), shapes=StageConfig(80, 1e20))
    with pytest.raises(PoliError, match=r"training diverged.*learning_rate"):
        train(hot, tmp_path / "run", Recorder())
    assert "gradient" in warnings[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing to train on: the file is empty"),
        ("name = 'x'\n[shapes]\nsteps = 3", r"nothing to train on: it has only name, shapes.*\[scans\]"),
        ("[shapes]\nsteps = 0\n[sizes]\nsteps = 0", "nothing to train"),
        ("[curvature]\nsteps = 3", "the architecture has no curvature"),
        ("[schedule]\nprocesses = 0", "schedule.processes is 0; expected 1 to"),
        ("[scan]\nworlds = 3", "unknown table scan;.*did you mean scans"),
        ("[pairs]\npoint = [3]", r"unknown setting pairs\.point;.*did you mean points"),
        ("[shapes]\nsteps = 'many'", r"shapes\.steps is 'many'; expected int"),
        ("[sizes]\nlearning_rate = inf", "finite"),
        ("[architecture]\nreach = 4", "reach is 4"),
        ("name = [", "not a TOML file"),
    ],
)
def test_bad_configurations_name_the_file_and_the_setting(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(FormatError, match=rf"bad\.toml: .*{message}"):
        read_config(path)


def test_mesh_names_are_relative_to_the_configuration(tmp_path):
    (tmp_path / "c.toml").write_text("initial = 'b.safetensors'\n[data]\nprocedural = 0\nmeshes = ['a.ply']")
    config = read_config(tmp_path / "c.toml")
    assert config.data.meshes == ("a.ply",)  # as written: a run may be resumed from another folder
    with pytest.raises(FormatError, match=str(tmp_path / "b.safetensors")):
        train(config, tmp_path / "run", beside=tmp_path)
    with pytest.raises(FormatError, match=str(tmp_path / "a.ply")):
        train(replace(config, initial=""), tmp_path / "run", beside=tmp_path)


@pytest.mark.parametrize("name", [path.name for path in (Path(__file__).parents[2] / "configs").glob("*.toml")])
def test_committed_configurations_are_valid(name):
    config = read_config(Path(__file__).parents[2] / "configs" / name)
    assert TrainConfig.from_json(config.to_json()) == config
    assert config.architecture.multiply_adds() <= 80_000


def test_damaged_checkpoints_are_refused(tmp_path):
    config = read_config(tiny(tmp_path, 2))
    train(config, tmp_path / "run")
    path = tmp_path / "run" / "checkpoint.safetensors"
    whole = path.read_bytes()
    for damaged in (whole[:100], b"", json.dumps({}).encode()):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match="checkpoint"):
            train(config, tmp_path / "run")


def test_learning_rate_rises_and_falls_in_each_stage():
    config = TrainConfig(shapes=StageConfig(800), sizes=StageConfig(200, 2e-3))
    rates = [learning_rate(config, step) for step in range(1000)]
    for stage, first, end in ((config.shapes, 0, 800), (config.sizes, 800, 1000)):
        assert rates[first] < rates[first + 50] < max(rates[first:end]) <= stage.learning_rate
        assert rates[end - 1] == pytest.approx(stage.learning_rate * config.schedule.final_fraction, rel=0.05)
    assert [config.stage(step)[0] for step in (0, 799, 800, 999)] == ["shapes", "shapes", "sizes", "sizes"]

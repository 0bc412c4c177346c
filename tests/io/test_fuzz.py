"""The fuzzer: its parts, a short run, and inputs that were once bad."""

import json

import numpy as np
import pytest

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'poli[ros]'")
pytest.importorskip("laspy", reason="laspy is not installed: pip install 'poli[las]'")
pytest.importorskip("torch", reason="torch is not installed: pip install 'poli[train]'")

import poli
from fuzz.damage import NotFinite, Target
from fuzz.run import TARGETS, Case, chosen_targets, fuzz, keep, kept, make_case, try_case
from poli import Ellipsoids
from poli.errors import FormatError

TWICE = sum(target.share for target in TARGETS) * 2  # every target appears according to its share


def test_a_short_run_finds_nothing_bad():
    tally = fuzz(TWICE * 2, seed=1, workers=1)
    assert tally.cases == TWICE * 2
    assert {name for name, _ in tally.verdicts} == {target.name for target in TARGETS}
    assert not tally.bad, tally.bad[0]
    kinds = {kind: sum(count for (_, k), count in tally.verdicts.items() if k == kind) for kind in ("answer", "refused")}
    assert min(kinds.values()) > TWICE // 10  # damage that is never noticed, or always, finds nothing


def test_cases_are_reproducible():
    targets = chosen_targets("points,model")
    for number in range(len(targets)):
        assert make_case(targets, 5, number).tree == make_case(targets, 5, number).tree
    assert make_case(targets, 5, 0).tree != make_case(targets, 6, 0).tree


def test_a_kept_case_is_run_again(tmp_path):
    case = make_case(chosen_targets("points .pcd"), 1, 3)
    keep(case, tmp_path / "bad", "why not")
    again = kept(tmp_path / "bad")
    assert (again.tree, again.target.name) == (case.tree, case.target.name)


def _raise(error):
    def read(_):
        raise error

    return read


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (lambda _: 1, "answer"),
        (_raise(FormatError("a.bin: no")), "refused"),
        (_raise(FormatError("no name")), "bad"),
        (_raise(ValueError("a.bin")), "bad"),
        (_raise(MemoryError()), "bad"),
        (_raise(SystemExit(1)), "bad"),
        (_raise(NotFinite("points")), "bad"),
    ],
)
def test_outcomes_are_classified(tmp_path, read, kind):
    target = Target("x", lambda _: [], read, lambda tree, rng, others: tree, named=True)
    assert try_case(Case(target, {"a.bin": b"1"}), tmp_path / "scratch").kind == kind


# --- inputs that were once bad


def test_weights_that_overflow_are_refused(tmp_path):
    from fuzz.models import _ARCHITECTURES, _model

    path = tmp_path / "model.safetensors"
    for architecture in _ARCHITECTURES:
        path.write_bytes(_model(architecture, np.random.default_rng(0), largest=1e38))
        with pytest.raises(poli.PoliError, match="not finite"):
            poli.estimate(np.random.default_rng(0).normal(size=(100, 3)), path, warn=False)


@pytest.mark.parametrize("odd", [1e300, 1e-310])
def test_covariances_too_large_for_floats(tmp_path, odd):
    np.savez(tmp_path / "field.npz", means=np.zeros((2, 3)), covariances=np.stack([np.eye(3), odd * np.eye(3)]))
    with pytest.raises(FormatError, match=r"field\.npz.*row 1"):
        Ellipsoids.load(tmp_path / "field.npz")


def test_logs_with_odd_contents(tmp_path):
    from poli.io.tables import read_log
    from poli.lidar_odometry.run_folder import read_steps

    for content in (b"step,loss\n;,1\n", b"\xff\xfe", b"loss\n1\n", b"step\n-1\n", b"step,loss\n" + b'"' + b"9" * 200_000 + b'"\n'):
        (tmp_path / "log.csv").write_bytes(content)
        with pytest.raises(FormatError, match=r"log\.csv"):
            read_log(tmp_path / "log.csv")
        (tmp_path / "steps.csv").write_bytes(content)
        with pytest.raises(FormatError, match=r"steps\.csv"):
            read_steps(tmp_path)


def test_a_state_of_wrong_types_is_a_damaged_checkpoint(tmp_path):
    from fuzz.damage import join_safetensors, split_safetensors
    from fuzz.models import _checkpoints
    from poli.train import checkpoint

    (tmp_path / "run").mkdir()
    header, rest = split_safetensors(_checkpoints(tmp_path / "run")[0]["checkpoint.safetensors"])
    path = tmp_path / "checkpoint.safetensors"
    for state in (
        [],
        {"step": "1", "skipped": 0},
        {"step": 1e9, "skipped": 0},
        {"step": 10**9, "skipped": 0},
        {"step": True, "skipped": 0},
    ):
        header["__metadata__"]["state"] = json.dumps(state)
        path.write_bytes(join_safetensors(header, rest))
        with pytest.raises(FormatError, match="damaged checkpoint"):
            checkpoint.load(path)

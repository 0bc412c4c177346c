"""Progress of `poli train` and `poli adapt` in log files: lines on stderr where there is no terminal."""

import json
import re

import pytest
from typer.testing import CliRunner

from poli.cli import app
from poli.cli import output as progress_lines

_LINE = r"run: (\d+)/6 \(\d+ %\), [\d:]+ elapsed.*loss"


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Run `poli train` for six steps; without a period, each update is a line."""
    pytest.importorskip("torch", reason="torch is not installed: pip install 'poli[train]'")
    from tiny_training import tiny

    def run(*options, period=0.0):
        monkeypatch.setattr(progress_lines, "PERIOD", period)
        result = CliRunner().invoke(app, ["train", str(tiny(tmp_path, 6)), "--out", str(tmp_path / "run"), "--fresh", *options])
        assert result.exit_code == 0, result.output
        return result

    return run


def test_training_reports_its_steps(trained):
    said = trained()
    assert [int(n) for n in re.findall(_LINE, said.stderr)] == [1, 2, 3, 4, 5, 6]
    assert "elapsed" not in said.stdout


def test_quiet_and_short_runs_report_none(trained):
    assert "elapsed" not in trained(period=1e9).output
    assert "elapsed" not in trained("--quiet").output


def test_json_stays_alone_on_standard_output(trained):
    said = trained("--json")
    assert "elapsed" in said.stderr
    assert json.loads(said.stdout)["model"].endswith("model.safetensors")

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

    monkeypatch.setattr(progress_lines, "PERIOD", 0.0)

    def run(*options):
        result = CliRunner().invoke(app, ["train", str(tiny(tmp_path, 6)), "--out", str(tmp_path / "run"), "--fresh", *options])
        assert result.exit_code == 0, result.output
        return result

    return run


def test_training_reports_its_steps_and_json_stays_alone_on_standard_output(trained):
    said = trained("--json")
    assert [int(n) for n in re.findall(_LINE, said.stderr)] == [1, 2, 3, 4, 5, 6]
    assert json.loads(said.stdout)["model"].endswith("model.safetensors")

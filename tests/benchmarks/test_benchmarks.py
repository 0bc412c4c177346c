"""`python -m benchmarks`: its command line, and the pivot of records behind every report."""

import json
import math
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.__main__ import NAMES, main, run
from benchmarks.provenance import source_digest
from benchmarks.report import Column, Plot, Report, Table, mean_record, plain, publish, show
from pictures import plot_colors
from poli.options import options_of

ROOT = Path(__file__).parents[2]


def test_the_list_of_experiments_is_quick_and_complete():
    code = "import sys; sys.argv[1:] = ['--help']; from benchmarks.__main__ import main; main(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    *lines, torch_loaded = done.stdout.splitlines()
    listed = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines if line.startswith("  ")}
    assert list(listed) == NAMES
    assert torch_loaded == "False"


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_explains_its_options(name, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("cvxpylayers")
    with pytest.raises(SystemExit) as ended:
        run([name, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert f"python -m benchmarks {name}" in text.replace("usage: ", "")
    for one in options_of(import_module(f"benchmarks.experiments.{name}").Options):
        assert " ".join(one.help.split()) in text
        assert (one.name if one.argument else f"--{one.name.replace('_', '-')}") in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["latte"], "no experiment 'latte'; choose from adapt, "),
        (["certificate", "--problems", "0"], "argument --problems: expected a whole number of at least 1, got '0'"),
        (["certificate", "--milk", "2"], "unrecognized arguments: --milk 2; `python -m benchmarks certificate --help`"),
        (["adapt"], "required: --real"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(words, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("benchmarks: ")
    assert error.count("\n") == 1
    assert said in error


def test_layer(tmp_path, monkeypatch):
    """A small but real run: cvxpylayers solves the same problems, and agrees."""
    pytest.importorskip("cvxpylayers")
    figures = tmp_path / "figures.json"
    words = ["layer", "--out", str(tmp_path), "--json", str(figures), "--problems", "10", "--repeats", "1", "--largest", "1000"]
    words += ["--compared", "10"]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    main()
    result = json.loads(figures.read_text())
    assert {"speedup_vs_cvxpylayers", "ms_16000", "ms_cvxpylayers_1000", "certified_fraction", "worst_gradient_error"} <= set(
        result
    )
    assert result["certified_fraction"] == 1.0
    assert result["worst_gradient_error"] < 1e-4
    assert len(plot_colors(tmp_path / "layer.png")) >= 2
    table = (tmp_path / "layer.md").read_text()
    assert "cvxpylayers SCS, paper's form" in table
    right = [row["gradient_error"] < 0.05 for row in result["records"] if "cvxpylayers Clarabel" not in row["layer"]]
    assert all(right)
    assert len(right) == 10  # five layers, two sizes
    compared = json.loads((tmp_path / "layer_paper.json").read_text())
    assert (compared["problems"], compared["tight"], compared["certified"]) == (10, 10, 10)
    assert compared["worst_gradient"] < 1e-3
    assert compared["worst_rotation"] < 1e-7
    typed = " ".join(words).replace(f"{tmp_path}/", "").replace(str(tmp_path), tmp_path.name)  # but for absolute paths
    assert table.splitlines()[2].startswith(f"`python -m benchmarks {typed}`; commit ")
    assert result["command"] == f"python -m benchmarks {typed}"
    assert (result["weights"], result["data"], result["experiment"]) == ({}, {}, "layer")
    assert result["source"] == source_digest("layer")


RECORDS = [
    {"drive": "a", "method": "x", "meters": 0.5, "seed": 0},
    {"drive": "a", "method": "x", "meters": 0.3, "seed": 1},
    {"drive": "a", "method": "y", "meters": 0.05, "seed": 0},
    {"drive": "b", "method": "x", "meters": 0.02, "seed": 0},
    {"drive": "b", "method": "y", "meters": math.nan, "seed": 0},
    {"drive": "c", "method": "z", "meters": 0.02, "seed": 0},
]


def test_a_pivot_shows_means_bold_bests_and_dashes_for_missing_values():
    table = Table(
        [Column("drive", "{drive}")],
        across="method",
        cell="{meters:cm}",
        lowest="meters",
        then=[("methods", lambda by: str(len(by)))],
    )
    columns, rows = table.render(RECORDS)
    assert columns == ["drive", "x", "y", "z", "methods"]
    assert rows == [
        ["a", "40.0", "**5.00**", "-", "2"],
        ["b", "2.00", "-", "-", "2"],  # nothing to compare with
        ["c", "-", "-", "2.00", "1"],
    ]
    reverse = Table([Column("drive", "{drive}")], across="method", cell="{meters:cm}", highest="meters", order=("y", "x"))
    assert reverse.render(RECORDS[:3]) == (["drive", "y", "x"], [["a", "5.00", "**40.0**"]])


def test_cells():
    record = {"a": {"b": 0.012345}, "c": None, "d": math.nan, "e": -3.21}
    assert show("{a[b]:cm}, {c}, {d:.1f}, {e:+%}, {a[b]:share}", record) == "1.23, -, -, -3.2 %, 1 %"
    assert mean_record([{"x": 1.0, "n": "p", "same": 2}, {"x": math.nan, "n": "q", "same": 2}]) == {"x": 1.0, "n": "p", "same": 2}


def test_a_report_is_written_as_markdown_json_and_plots(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "argv", ["benchmarks", "tea", "--cups", "a b"])
    table = Table([Column("drive", "{drive}")], across="method", cell="{meters:cm}")
    plots = {
        "bars": Plot("drive", "meters", "method", "", "m", kind="bars"),
        "lines": Plot("seed", "meters", "method", "", "m", "drive"),
    }
    publish(Report("tea", "Tea", RECORDS, table, ["a note"], {"best": math.inf}, plots), tmp_path / "out", tmp_path / "copy.json")
    text = (tmp_path / "out" / "tea.md").read_text()
    assert text.startswith("# Tea\n\n`python -m benchmarks tea --cups 'a b'` on ")
    assert "\n\n| drive | x | y | z |\n|---|---|---|---|\n| a | 40.0 | 5.00 | - |\n" in text
    assert text.endswith("\n\n- a note\n")
    figures = json.loads((tmp_path / "copy.json").read_text(), parse_constant=pytest.fail)
    assert figures["best"] is None
    assert figures["records"] == plain(RECORDS)
    assert (tmp_path / "out" / "tea.json").read_text() == (tmp_path / "copy.json").read_text()
    for name in plots:
        assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")

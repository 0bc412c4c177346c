"""Attacks on the terminal by names and contents that are printed. Each row is one attack."""

import io
import json
import warnings
from pathlib import Path

import pytest

import poli
from attack_tools import (
    NASTY,
    PCA,
    bag,
    harmless,
    in_folder,
    model,
    nan,
    npz_field,
    odometry_run,
    poli_folder,
    posix,
    scan,
    text,
)
from poli.cli.output import busy, progress, track
from poli.errors import printable

pytestmark = posix

SPOKEN = {
    "convert: name of an output": lambda: ("convert", scan(), f"{NASTY}.pcd"),
    "convert: name of a missing input": lambda: ("convert", f"{NASTY}.ply", "b.pcd"),
    "convert: name of an input of another format": lambda: ("convert", text(f"{NASTY}.ply", "x"), "b.pcd"),
    "convert: name of a field": lambda: ("convert", npz_field(NASTY), "b.npz"),
    "convert: name of a field that is dropped": lambda: ("convert", npz_field(NASTY), "b.bin", "--drop"),
    "convert: name of an unsupported field": lambda: ("convert", npz_field(NASTY), "b.bin"),
    "convert: ending of an output": lambda: ("convert", scan(), f"b.{NASTY}"),
    "convert: header of a PLY file": lambda: ("convert", text("a.ply", f"ply\n{NASTY}\n"), "b.pcd"),
    "convert: property of a PLY file": lambda: (
        "convert", text("a.ply", "ply\nformat ascii 1.0\nelement vertex 1\nproperty \x1b[2J x\nend_header\n1\n"), "b.pcd"
    ),
    "convert: header of a PCD file": lambda: ("convert", text("a.pcd", f"VERSION \x1b[2J\nFIELDS {NASTY}\n"), "b.ply"),
    "convert: header of a CSV file": lambda: ("convert", text("a.csv", "x,y,z,\x1b[2J\n1,2,3,4\n"), "b.npz"),
    "convert: words of a CSV file": lambda: ("convert", text("a.csv", "x,y,z\n1,2,\x1b[2J\n"), "b.npz"),
    "convert: --format": lambda: ("convert", scan(), "b.pcd", "--format", NASTY),
    "estimate: name of an output": lambda: ("estimate", scan(), f"{NASTY}.npz", *PCA),
    "estimate: points that are dropped": lambda: ("estimate", nan(f"{NASTY}.npy"), "b.npz", *PCA),
    "estimate: name of a model": lambda: ("estimate", scan(), "b.npz", "--model", NASTY),
    "estimate: name of a model file": lambda: ("estimate", scan(), "b.npz", "--model", f"{NASTY}.safetensors"),
    "estimate: metadata of a model": lambda: (
        "estimate", scan(), "b.npz", "--model", model("m.safetensors", format=NASTY, name=NASTY)
    ),
    "register: names of both": lambda: ("register", scan(f"{NASTY}.ply", 20), scan(f"{NASTY}2.ply", 20)),
    "register: --preset": lambda: ("register", scan(), scan("b.ply"), "--preset", NASTY),
    "densify: name of a scan": lambda: ("densify", scan(), f"{NASTY}.ply", *PCA),
    "densify: name of a folder": lambda: ("densify", in_folder(NASTY), f"{NASTY}2", *PCA, "--workers", 1),
    "densify: --dataset": lambda: ("densify", in_folder("f"), "g", "--dataset", NASTY),
    "densify: --topic": lambda: ("densify", bag("a.bag"), "b.bag", "--topic", NASTY),
    "densify: topics of a bag": lambda: ("densify", bag("a.bag", f"/{NASTY}"), "b.bag"),
    "densify: name of an existing bag": lambda: ("densify", bag("a.bag"), bag(f"{NASTY}.bag")),
    "densify: name of an invalid bag": lambda: ("densify", text(f"{NASTY}.bag", "x"), "b.bag"),
    "densify: --scheduler": lambda: ("densify", in_folder("f"), "g", "--scheduler", NASTY),
    "odometry: name of a folder": lambda: ("odometry", in_folder(NASTY), *PCA, "--out", f"{NASTY}2"),
    "odometry: name of a dataset inside it": lambda: ("odometry", poli_folder(NASTY), *PCA, "--out", "o"),
    "odometry: --option": lambda: ("odometry", in_folder("f"), "--option", f"{NASTY}={NASTY}"),
    "odometry: --option without a value": lambda: ("odometry", in_folder("f"), "--option", NASTY),
    "odometry: --sequence": lambda: ("odometry", in_folder("sequences"), "--dataset", "kitti", "--sequence", NASTY),
    "view: name of a scan": lambda: ("view", scan(f"{NASTY}.ply"), *PCA, "--out", f"{NASTY}.html"),
    "view: the default name": lambda: ("view", scan(f"{NASTY}.ply"), *PCA),
    "view: --out": lambda: ("view", scan(), "--out", f"a.{NASTY}"),
    "view: name of a run": lambda: ("view", odometry_run(NASTY), *PCA, "--out", "a.html"),
    "view: settings of a run": lambda: ("view", odometry_run("r", path=NASTY, name=NASTY), *PCA, "--out", "a.html"),
    "view: dataset of a run": lambda: ("view", odometry_run("r", dataset=NASTY), *PCA, "--out", "a.html"),
    "view: options of a run": lambda: ("view", odometry_run("r", options={NASTY: [NASTY]}), *PCA, "--out", "a.html"),
    "simulate: --place": lambda: ("simulate", "s", "--place", NASTY),
    "simulate: --sensor": lambda: ("simulate", "s", "--sensor", NASTY),
    "simulate: words of a sensor": lambda: ("simulate", "s", "--sensor", text("beams.txt", NASTY)),
    "simulate: name of an existing folder": lambda: ("simulate", in_folder(NASTY)),
    "train: name of a configuration": lambda: ("train", f"{NASTY}.toml"),
    "train: name of a setting": lambda: ("train", text("c.toml", '"\\u001b[2J" = 1\n')),
    "train: value of a setting": lambda: ("train", text("c.toml", 'name = 1\n[loss]\nkind = "\\u001b[2J"\n')),
    "train: invalid TOML": lambda: ("train", text("c.toml", NASTY)),
    "adapt: name of a log": lambda: ("adapt", NASTY),
    "models: name": lambda: ("models", NASTY),
    "export: name of an output": lambda: ("export", f"a.{NASTY}"),
    "an unknown command": lambda: (NASTY,),
    "an unknown option": lambda: ("convert", f"--{NASTY}"),
    "too many words": lambda: ("convert", "a", "b", NASTY),
    "a traceback": lambda: ("convert", f"{NASTY}.ply", "b.pcd", "--debug"),
    "--json of a name": lambda: ("convert", scan(), f"{NASTY}.pcd", "--json"),
    "--json of fields": lambda: ("convert", npz_field(NASTY), "b.npz", "--json"),
}  # fmt: skip


@pytest.mark.parametrize("attack", SPOKEN)
def test_only_plain_text_reaches_the_terminal(run_poli, attack):
    words = SPOKEN[attack]()
    code, said = run_poli(*words)
    assert harmless(said), attack
    assert code in (0, 2), said
    assert said
    if "--json" in words:
        json.loads(said)
    elif "--debug" not in words:
        assert all(len(line) for line in said.splitlines()), "a line feed from a name"


def test_warnings_are_one_harmless_line(run_poli, monkeypatch):
    from poli.io import formats

    read = formats.read
    monkeypatch.setattr("poli.io.formats.read", lambda *a, **k: (warnings.warn(NASTY, stacklevel=1), read(*a, **k))[1])
    for debug in ((), ("--debug",)):
        code, said = run_poli("convert", scan(), f"b{len(debug)}.pcd", *debug)
        assert code == 0
        assert harmless(said)
        assert "owned" in said


def test_progress_bars_show_names_verbatim(monkeypatch):
    import rich
    from rich.console import Console

    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=200)
    monkeypatch.setattr(rich, "get_console", lambda: console)
    with busy(NASTY):
        pass
    with progress() as bar:
        bar.add_task(NASTY, total=1)
    assert list(track([1], NASTY)) == [1]
    said = stream.getvalue()
    assert said.count("owned") >= 3
    for attack in ("\x1b]0;", "\x1b[2J", "\x9b", "\u202e", "\x07", "\x7f"):
        assert attack not in said
    assert "[red]:skull:" in said  # neither markup nor a picture


@pytest.mark.parametrize("text", ["ä ° 東京 ✓", "plain", ""])
def test_text_stays_text(text):
    assert printable(text) == text


def test_all_control_characters_are_escaped():
    for code in (*range(32), *range(127, 160), 0x200E, 0x202A, 0x202E, 0x2028, 0x2066, 0xFEFF, 0xD800, 0xDC80, 0xE0001):
        assert printable(f"a{chr(code)}b").isprintable(), hex(code)
    assert printable("a\nb\x1b", lines=True) == "a\nb\\x1b"


def test_commands_print_through_one_module():
    for file in (Path(poli.__file__).parent / "cli").glob("*.py"):
        text = file.read_text(encoding="utf-8").replace("Console().print(", "").replace("Console(highlight=False).print(", "")
        for way in ("typer.echo", "typer.secho", "print(", "rich.progress import track"):
            assert file.name == "output.py" or way not in text, (file.name, way)

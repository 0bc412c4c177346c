"""Attacks on the terminal by names and contents that are printed. Each row is one attack."""

import json

import pytest

from attack_tools import (
    NASTY,
    PCA,
    bag,
    harmless,
    model,
    nan,
    npz_field,
    odometry_run,
    poli_folder,
    posix,
    scan,
    text,
)
from poli.errors import printable

pytestmark = posix

SPOKEN = {
    "convert: header of a PLY file": lambda: ("convert", text("a.ply", f"ply\n{NASTY}\n"), "b.pcd"),
    "estimate: points that are dropped": lambda: ("estimate", nan(f"{NASTY}.npy"), "b.npz", *PCA),
    "estimate: metadata of a model": lambda: (
        "estimate", scan(), "b.npz", "--model", model("m.safetensors", format=NASTY, name=NASTY)
    ),
    "densify: topics of a bag": lambda: ("densify", bag("a.bag", f"/{NASTY}"), "b.bag"),
    "odometry: name of a dataset inside it": lambda: ("odometry", poli_folder(NASTY), *PCA, "--out", "o"),
    "view: settings of a run": lambda: ("view", odometry_run("r", path=NASTY, name=NASTY), *PCA, "--out", "a.html"),
    "a traceback": lambda: ("convert", f"{NASTY}.ply", "b.pcd", "--debug"),
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


def test_all_control_characters_are_escaped():
    for code in (*range(32), *range(127, 160), 0x200E, 0x202A, 0x202E, 0x2028, 0x2066, 0xFEFF, 0xD800, 0xDC80, 0xE0001):
        assert printable(f"a{chr(code)}b").isprintable(), hex(code)
    assert printable("a\nb\x1b", lines=True) == "a\nb\\x1b"

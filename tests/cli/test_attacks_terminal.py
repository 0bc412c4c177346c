"""Names and contents of files that would control the terminal if they were printed as they are. Each row is one attack."""

import json

import pytest

from attack_tools import NASTY, PCA, harmless, in_folder, model, nan, npz_field, posix, scan, text
from poli.errors import printable

pytestmark = posix

SPOKEN = {
    "name of an output": lambda: ("convert", scan(), f"{NASTY}.pcd"),
    "name of a field that is dropped": lambda: ("convert", npz_field(NASTY), "b.bin", "--drop"),
    "header of a PLY file": lambda: ("convert", text("a.ply", f"ply\n{NASTY}\n"), "b.pcd"),
    "points that are dropped": lambda: ("estimate", nan(f"{NASTY}.npy"), "b.npz", *PCA),
    "metadata of a model": lambda: ("estimate", scan(), "b.npz", "--model", model("m.safetensors", format=NASTY, name=NASTY)),
    "name of a folder": lambda: ("densify", in_folder(NASTY), f"{NASTY}2", *PCA, "--workers", 1),
    "an unknown option": lambda: ("convert", f"--{NASTY}"),
    "--json of fields": lambda: ("convert", npz_field(NASTY), "b.npz", "--json"),
}


@pytest.mark.parametrize("attack", SPOKEN)
def test_only_plain_text_reaches_the_terminal(run_poli, attack):
    words = SPOKEN[attack]()
    code, said = run_poli(*words)
    assert harmless(said), attack
    assert code in (0, 2), said
    assert said
    if "--json" in words:
        json.loads(said)
    else:
        assert all(len(line) for line in said.splitlines()), "a line feed from a name"


def test_all_control_characters_are_escaped():
    for code in (*range(32), *range(127, 160), 0x200E, 0x202A, 0x202E, 0x2028, 0x2066, 0xFEFF, 0xD800, 0xDC80, 0xE0001):
        assert printable(f"a{chr(code)}b").isprintable(), hex(code)
    assert printable("a\nb\x1b", lines=True) == "a\nb\\x1b"
    assert printable("ä ° 東京 ✓") == "ä ° 東京 ✓"

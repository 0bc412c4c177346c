"""Attacks by a user who can write where `poli densify` works: links, foreign folders, foreign parts. Each row is one attack."""

import json
import os
import shutil
import stat
import struct
import zlib
from pathlib import Path

import pytest

from attack_tools import PCA, bag, in_folder, posix
from poli.densification import bags, resume
from poli.errors import FormatError

pytestmark = posix

EVERY = ("--voxel", 0, "--topic", "/points", "--workers", 1)


@pytest.fixture
def victim(run_poli):
    """A bag, and another user's folder with a file in it."""
    bag("a.bag")
    Path("home").mkdir()
    for name in ("lock", "run.json", "letter"):
        Path("home", name).write_text("dear all")
    Path("home/temporary").mkdir()
    Path("home/temporary/photo").write_text("beach")
    return lambda: run_poli("densify", "a.bag", "dense.bag", *EVERY)


def _link_folder():
    Path(".dense.bag.densify").symlink_to("home")


def _workspace(mode=0o700):
    os.mkdir(".dense.bag.densify")
    os.chmod(".dense.bag.densify", mode)
    return Path(".dense.bag.densify")


def _open_to_all():
    _workspace(0o777)


def _file_instead():
    Path(".dense.bag.densify").write_text("x")


PREPARED = {
    "a link in its place": _link_folder,
    "a link to nowhere": lambda: Path(".dense.bag.densify").symlink_to("nowhere"),
    "a file in its place": _file_instead,
    "others may write there": _open_to_all,
    "the group may write there": lambda: _workspace(0o770),
    "parts are a link": lambda: (_workspace() / "parts").symlink_to(Path("home").resolve()),
    "temporary is a link": lambda: (_workspace() / "temporary").symlink_to(Path("home").resolve()),
    "run.json is a link": lambda: (_workspace() / "run.json").symlink_to(Path("home/letter").resolve()),
    "finished is a link": lambda: (_workspace() / "finished").symlink_to(Path("home/letter").resolve()),
    "an unknown file": lambda: (_workspace() / "letter").write_text("x"),
    "a folder for run.json": lambda: (_workspace() / "run.json").mkdir(),
}


@pytest.mark.parametrize("attack", PREPARED)
def test_a_hidden_folder_that_is_not_ours_is_refused(victim, attack):
    PREPARED[attack]()
    before = {path: path.read_bytes() for path in Path("home").rglob("*") if path.is_file()}
    code, said = victim()
    assert code == 2, said
    assert "remove" in said
    assert {path: path.read_bytes() for path in Path("home").rglob("*") if path.is_file()} == before
    assert not Path("dense.bag").exists()


def test_a_lock_that_is_a_link_empties_nothing(victim):
    (_workspace() / "lock").symlink_to(Path("home/letter").resolve())
    code, said = victim()
    assert code == 0, said
    assert Path("home/letter").read_text() == "dear all"
    assert not list(Path().glob(".*"))


def test_a_hidden_folder_of_another_user_is_refused(victim, monkeypatch):
    _workspace()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    code, said = victim()
    assert code == 2
    assert "belongs to another user" in said


def test_a_hidden_folder_is_private_under_any_umask(victim, monkeypatch):
    modes, copy_of = [], bags.copy_of
    monkeypatch.setattr(
        bags, "copy_of", lambda *a: (modes.append(stat.S_IMODE(os.stat(".dense.bag.densify").st_mode)), copy_of(*a))[1]
    )
    before = os.umask(0)
    try:
        assert victim()[0] == 0
    finally:
        os.umask(before)
    assert modes == [0o700]


def _stopped(monkeypatch, victim):
    """A run that stopped after its first part, which it keeps."""

    def full(self, items):
        for item in items:
            if item.cloud:
                self._parts.save(0, self._engine.submit(self._work, bags.Large((item.raw, "a"))).result())
                raise FormatError("the disk is full")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(bags._Pass, "run", full)
        assert victim()[0] == 2
    part = Path(".dense.bag.densify/parts/00000000.part")
    assert part.is_file()
    return part


def test_parts_of_others_are_not_used(victim, monkeypatch):
    part = _stopped(monkeypatch, victim)
    whole = part.read_bytes()
    seen = []
    load = resume.Parts.load
    monkeypatch.setattr(resume.Parts, "load", lambda self, n: (seen.append(load(self, n)), seen[-1])[1])
    raw = whole[48:]
    forged = {
        "with a checksum": struct.pack("<IQQ", zlib.crc32(raw), 100, 100) + raw,
        "with a digest without the key": bytes(32) + whole[32:],
        "with a bit changed": whole[:-1] + bytes([whole[-1] ^ 1]),
        "cut off": whole[:40],
        "empty": b"",
    }
    for name, content in forged.items():
        run = json.loads(Path(".dense.bag.densify/run.json").read_text())
        store = resume.Parts(Path(".dense.bag.densify"), {k: v for k, v in run.items() if k != "key"})
        part.write_bytes(content)
        assert store.load(0) is None, name
    part.write_bytes(whole)
    assert store.load(0) is not None
    shutil.copy(part, part.with_name("00000001.part"))
    assert store.load(1) is None, "in the place of another"
    part.unlink()
    Path("elsewhere.part").write_bytes(whole)
    part.symlink_to(Path("elsewhere.part").resolve())
    assert store.load(0) is None, "a link"
    part.unlink()
    assert victim()[0] == 0
    assert not list(Path().glob(".*"))


# --- trees


def test_links_out_of_a_tree_are_not_written_through(run_poli):
    source = in_folder("in")
    (source / "sub").mkdir()
    (source / "sub" / "notes.txt").write_text("new")
    assert run_poli("densify", "in", "out", *PCA, "--workers", 1)[0] == 0
    shutil.rmtree("out/sub")
    Path("home").mkdir()
    Path("home/notes.txt").write_text("mine")
    Path("out/sub").symlink_to(Path("home").resolve())
    code, said = run_poli("densify", "in", "out", *PCA, "--workers", 1, "--overwrite")
    assert code == 2
    assert "is a link that leads out of out" in said
    assert Path("home/notes.txt").read_text() == "mine"


def test_a_tree_begun_by_another_user_is_not_resumed(run_poli, monkeypatch):
    in_folder("in")
    assert run_poli("densify", "in", "out", *PCA, "--workers", 1)[0] == 0
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    code, said = run_poli("densify", "in", "out", *PCA, "--workers", 1)
    assert code == 2
    assert "was started by another user" in said

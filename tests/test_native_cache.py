"""The cache of compiled code must belong to the user alone; otherwise it is not used, since its files are executed."""

import os
import stat

import pytest

from poli.native import user_cache

pytestmark = pytest.mark.skipif(os.name != "posix", reason="other systems protect the folder themselves")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path / "poli" / "kernels"


def content(name: str) -> bytes | None:
    opened = user_cache.opener(name)
    if opened is None:
        return None
    with opened() as file:
        return file.read()


def test_it_stores_and_finds_files(folder):
    assert content("a.poli") is None
    assert user_cache.keep("a.poli", b"code")
    assert content("a.poli") == b"code"
    assert user_cache.trouble() is None
    assert [path.name for path in folder.iterdir()] == ["a.poli"]


def test_other_users_cannot_write_even_under_a_permissive_umask(folder):
    before = os.umask(0)
    try:
        assert user_cache.keep("a.poli", b"code")
    finally:
        os.umask(before)
    for path, mode in ((folder, 0o700), (folder.parent, 0o700), (folder / "a.poli", 0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o755])
def test_a_folder_that_others_can_write_is_not_used(folder, mode):
    assert user_cache.keep("a.poli", b"code")
    folder.chmod(mode)
    assert content("a.poli") is None
    assert not user_cache.keep("b.poli", b"code")
    assert f"open to others (mode {mode:o}" in user_cache.trouble()
    assert [path.name for path in folder.iterdir()] == ["a.poli"]


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    assert user_cache.keep("a.poli", b"code")
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert content("a.poli") is None
    assert not user_cache.keep("b.poli", b"code")
    assert "belongs to another user" in user_cache.trouble()


def test_a_link_is_not_followed(folder, tmp_path):
    other = tmp_path / "elsewhere"
    other.mkdir(mode=0o700)
    (other / "a.poli").write_bytes(b"code")
    folder.parent.mkdir(mode=0o700)
    folder.symlink_to(other)
    assert content("a.poli") is None
    assert not user_cache.keep("b.poli", b"code")
    assert user_cache.trouble() is not None
    folder.unlink()
    folder.mkdir(mode=0o700)
    (folder / "a.poli").symlink_to(other / "a.poli")
    assert content("a.poli") is None


def test_a_file_that_others_can_write_is_not_used(folder):
    assert user_cache.keep("a.poli", b"code")
    (folder / "a.poli").chmod(0o622)
    assert content("a.poli") is None


def test_old_files_and_those_of_killed_processes_are_removed(folder):
    for name in ("old.poli", ".halfway.poli", "new.poli"):
        assert user_cache.keep(name, b"code")
        if name != "new.poli":
            os.utime(folder / name, (0, 0))
    assert user_cache.keep("last.poli", b"code")
    assert {path.name for path in folder.iterdir()} == {"new.poli", "last.poli"}


def test_a_full_disk_or_a_missing_home_is_not_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert not user_cache.keep("a.poli", b"code")
    assert content("a.poli") is None
    assert user_cache.trouble() is not None

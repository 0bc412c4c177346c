"""Attacks on temporary files, locks, links and pages."""

import stat

import pytest

import poli
from attack_tools import posix
from poli.errors import FormatError
from poli.io.atomic import atomic_folder, atomic_path, remove_stale, temporary_folder
from poli.lidar_odometry.run_folder import link_latest
from poli.viewer.page import write_page
from poli.viewer.panel import Panel
from tiny_scans import room

pytestmark = posix

STALE = ".poli-0123456789abcdef"


def test_cleanup_follows_no_links_and_removes_only_our_files(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    (tmp_path / STALE).symlink_to(tmp_path / "home")
    (tmp_path / f"{STALE}.txt").symlink_to(tmp_path / "home" / "letter")
    (tmp_path / ".poli-notes").write_text("mine")
    (tmp_path / "x.poli-0123456789abcdef").write_text("mine")
    before = sorted(path.name for path in tmp_path.iterdir())
    remove_stale(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "home" / "letter").read_text() == "dear"


def test_files_in_use_are_not_stale(tmp_path):
    with atomic_path(tmp_path / "a.ply") as file, temporary_folder(tmp_path) as folder:
        remove_stale(tmp_path)
        assert file.is_file()
        assert folder.is_dir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in tmp_path.iterdir()] == ["a.ply"]


def test_stale_files_are_removed_by_the_next_write(tmp_path):
    (tmp_path / f"{STALE}.ply").write_text("of a process that was killed")
    (tmp_path / f"{STALE[:-1]}0").mkdir()
    (tmp_path / f"{STALE[:-1]}0" / "file").write_text("of another")
    poli.write(room(), tmp_path / "a.ply")
    assert [path.name for path in tmp_path.iterdir()] == ["a.ply"]


def test_outputs_replace_links_and_not_their_targets(tmp_path):
    (tmp_path / "letter").write_text("dear")
    (tmp_path / "a.txt").symlink_to(tmp_path / "letter")
    with atomic_path(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "letter").read_text() == "dear"
    assert (tmp_path / "a.txt").read_text() == "new"
    (tmp_path / "nowhere").symlink_to(tmp_path / "made")
    with pytest.raises(FormatError), atomic_folder(tmp_path / "nowhere"):
        pass
    assert not (tmp_path / "made").exists()


def test_latest_replaces_a_link_and_keeps_its_target(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    (tmp_path / "run").mkdir()
    (tmp_path / "latest").symlink_to(tmp_path / "home")
    link_latest(tmp_path / "run")
    assert (tmp_path / "latest").resolve() == tmp_path / "run"
    assert (tmp_path / "home" / "letter").read_text() == "dear"
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").mkdir()  # a user's file
    link_latest(tmp_path / "run")
    assert (tmp_path / "latest").is_dir()
    assert not (tmp_path / "latest").is_symlink()
    assert not list(tmp_path.glob(".*"))


# --- pages

SCRIPTS = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "{{data}}", "<!--<script>", "'\"&\u2028</title>"]


@pytest.mark.parametrize("text", SCRIPTS)
def test_pages_run_no_code_from_the_data(tmp_path, text):
    write_page(tmp_path / "a.html", text, [Panel(text, points=room(), caption=text)], note=text)
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    write_page(tmp_path / "b.html", "plain", [Panel("plain", points=room(), caption="plain")], note="plain")
    plain = (tmp_path / "b.html").read_text(encoding="utf-8")
    assert page.count("<script") == plain.count("<script")
    assert page.count("</script") == plain.count("</script")
    assert page.count("<img") == plain.count("<img")
    assert "<!--<script" not in page

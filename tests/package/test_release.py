"""Versions agree, the changelog gives the notes of a release, and workflows and Dockerfiles name what exists."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / ".github" / "release_notes.py"))
DOCKERFILES = sorted((ROOT / "docker").glob("Dockerfile*"))


def test_all_files_have_one_version():
    found = SCRIPT["versions"]()
    assert len(set(found.values())) == 1, found
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    assert newest in (*found.values(), "Unreleased")


def test_notes_are_the_section_of_the_version():
    changelog = "# Changelog\n\nWords.\n\n## 0.2.0 (2026-11-17)\n\n### New\n\n- a\n\n## 0.1.0 (unreleased)\n\n- b\n"
    assert SCRIPT["notes"]("0.2.0", changelog) == "### New\n\n- a\n"
    with pytest.raises(SystemExit, match=r"unreleased.*write the date"):
        SCRIPT["notes"]("0.1.0", changelog)
    with pytest.raises(SystemExit, match=r"no section of 0\.3\.0"):
        SCRIPT["notes"]("0.3.0", changelog)


def test_a_tag_of_another_version_is_refused():
    with pytest.raises(SystemExit, match=r"pyproject\.toml: the version is .*, the tag v9\.9\.9"):
        SCRIPT["main"]("v9.9.9")


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_dockerfiles_copy_what_exists_and_is_not_ignored(path):
    allowed = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = path.read_text(encoding="utf-8")
    copied = [shlex.split(line)[1:-1] for line in text.splitlines() if line.startswith("COPY") and "--from" not in line]
    names = {name for names in copied for name in names}
    assert {"pyproject.toml", "src"} <= names <= set(allowed)
    assert all((ROOT / name).exists() for name in names)
    # What the build reads: the readme and the license of the metadata.
    assert {"README.md", "LICENSE"} <= names
    assert "not built yet" in text

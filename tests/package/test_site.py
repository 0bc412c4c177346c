"""The documentation site builds without warnings and is complete."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.main import get_command

from doc_pages import ROOT
from poli.cli import app

pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'poli[docs]'")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed: pip install 'poli[docs]'")

PACKAGES = [
    "poli", "poli.certify", "poli.io.datasets", "poli.worlds.shapes", "poli.worlds", "poli.viewer", "poli.registration",
    "poli.densification", "poli.lidar_odometry", "poli.lidar_odometry.trajectory_errors",
]  # fmt: skip


# A page in no menu with a link to a missing picture, for the control below. It inherits the rules of a strict build.
@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """Only files tracked by git: an untracked file must not help the build."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a clone")
    folder = tmp_path_factory.mktemp("clone")
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def make_docs(clone: Path, *options: str) -> subprocess.CompletedProcess:
    """Run the recipe of `make docs` with the interpreter of the tests. Never with `--quiet`: mkdocs then drops the warnings that
    `--strict` would count."""
    recipe = re.search(r"^docs:.*\n\t(.*)$", (clone / "Makefile").read_text(), re.MULTILINE)
    settings, _, command = recipe[1].partition(" $(BIN)/mkdocs ")
    environment = os.environ | dict(setting.split("=") for setting in settings.split()) | {"PYTHONPATH": str(clone / "src")}
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *command.split(), *options], cwd=clone, env=environment, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def site(clone) -> Path:
    """Strict: dead links and anchors, and pages in no menu, are warnings, and warnings are errors (mkdocs.yml)."""
    done = make_docs(clone)
    assert done.returncode == 0, done.stdout + done.stderr
    return clone / "site"


def text(site: Path, page: str) -> str:
    return (site / page).read_text(encoding="utf-8")


def test_every_command_and_option_is_in_the_reference(site):
    page = text(site, "reference/cli.html")
    for name, command in get_command(app).commands.items():
        for verb, below in getattr(command, "commands", {name: command}).items():
            assert f"poli {name} {verb}" in page or f"poli {verb}" in page
            assert all(option in page for parameter in below.params for option in parameter.opts)


def test_every_public_name_is_in_the_reference(site):
    pages = "".join(path.read_text(encoding="utf-8") for path in (site / "reference").glob("*.html"))
    shown = set(re.findall(r'id="(poli[\w.]*)"', pages))
    for package in map(importlib.import_module, PACKAGES):
        for name in package.__all__:
            thing = getattr(package, name)
            if isinstance(thing, ModuleType | str):  # a package with a separate page; the version
                continue
            home = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', name)}"
            assert {f"{package.__name__}.{name}", home} & shown, f"{package.__name__}.{name} is nowhere in docs/reference"

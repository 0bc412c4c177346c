"""Every Python block of the documents runs, page by page from top to bottom; every `poli` command in them exists.

In docs/ the commands run too, in the same folder as the page's Python. `<!-- parse only -->` before a block: it takes long, or
needs data that the tests do not have. `<!-- needs: open3d -->`: skipped with a message if the package is missing.
"""

import re
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import poli
from doc_pages import PAGES, README, ROOT, benchmark_commands, blocks, check_options, commands, mentions, parse, parse_benchmark
from poli.cli import app
from poli.io.datasets import write_folder
from poli.worlds import Ride, Sensor, World
from poli.worlds.drive import Drive
from poli.worlds.places import make_place

LANGUAGES = {"python", "sh", "toml", "text"}


@pytest.fixture(scope="session")
def small_data(tmp_path_factory) -> Path:
    """Files that pages assume: `scan.pcd`, and `drive`, some scans of one sensor with their poses."""
    folder = tmp_path_factory.mktemp("data")
    sensor = Sensor(tuple(float(e) for e in np.linspace(-15.0, 15.0, 16)), steps=360, max_range=100.0, noise=0.02)
    drive = Drive(World(make_place("hall", 2_000_001)), sensor, Ride(speed=3.0), count=12)
    write_folder(folder / "drive", "hall", drive, drive.poses, drive.measured)
    poli.write(next(iter(replace(drive, deskewed=False))).keep("ring", "time", "intensity"), folder / "scan.pcd")
    return folder


def run(page: Path, folder: Path) -> dict:
    """Run the page from top to bottom; returns the variables of its Python."""
    names: dict = {"__name__": page.stem}
    left_out = set()
    for block in blocks(page):
        missing = [name for name in block.needs if find_spec(name) is None]
        left_out |= set(missing)
        if missing or block.parse_only:
            continue
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
        elif block.language == "sh":
            for words in commands(block.text):
                done = CliRunner().invoke(app, words)
                assert done.exit_code == 0, f"{page.name}: poli {' '.join(words)}: {done.exception or done.output}"
    names["left_out"] = left_out
    return names


RUN = [page for page in PAGES if any(block.language in ("python", "sh") and not block.parse_only for block in blocks(page))]


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_run(page, small_data, tmp_path, monkeypatch):
    folder = tmp_path / "here"
    shutil.copytree(small_data, folder)
    monkeypatch.chdir(folder)
    names = run(page, folder)
    if names["left_out"]:
        pytest.skip(f"blocks skipped; not installed: {', '.join(sorted(names['left_out']))}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page):
    for block in blocks(page):
        if block.language in ("sh", ""):
            for words in commands(block.text):
                parse(words)
    for words in mentions(page):
        check_options(words)
    for words in benchmark_commands(page):
        parse_benchmark(words)


def test_examples_in_the_help_exist():
    def walk(command):
        yield command
        for below in getattr(command, "commands", {}).values():
            yield from walk(below)

    texts = [re.sub(r"Examples?:", "", command.help or "") for command in walk(get_command(app))]
    shown = [words for text in texts for words in commands(text)]
    assert len(shown) > 20
    for words in shown:
        parse(words)


def test_every_block_of_the_site_has_a_language():
    """A block without a language would silently not run. Results are written by benchmarks and have none."""
    for page in PAGES:
        if page != README:
            for block in blocks(page):
                assert block.language in LANGUAGES, f"{page}, line {block.line}: {block.language or 'no language'}"


def test_the_readme_is_short_and_names_the_required_commands():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    for command in ("make demo", "make test", "poli estimate", "poli register", "poli train", "poli odometry"):
        assert command in text

"""Helpers for the tests of the documents: the code blocks of a page, and the commands in them."""

import re
import shlex
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from typer.main import get_command

from benchmarks.__main__ import NAMES
from benchmarks.options import parse as parse_options
from poli.cli import app

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`poli ([a-z][^`]*)`")
_BENCHMARK = re.compile(r"python -m benchmarks ([a-z_]+(?: [^`\n#]*)?)")
_NEEDS = re.compile(r"<!-- needs: ([\w, ]+) -->\s*\Z")
_PARSE_ONLY = re.compile(r"<!-- parse only -->\s*\Z")
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    language: str  # as written after the fence; empty if missing
    text: str
    line: int  # line of the page where the text begins
    title: str  # the file that it shows, if named
    needs: tuple[str, ...]  # packages that it needs
    parse_only: bool


def blocks(page: Path) -> list[Block]:
    """All fenced blocks. Comments right before a block list its requirements, or say that it takes too long to run."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        before, head = text[: match.start()], match[0].partition("\n")[0]
        needs, title = _NEEDS.search(before), _TITLE.search(head)
        packages = tuple(name.strip() for name in needs[1].split(",")) if needs else ()
        line = before.count("\n") + 2
        found.append(Block(match[1], match[2], line, title[1] if title else "", packages, bool(_PARSE_ONLY.search(before))))
    return found


def commands(text: str) -> list[list[str]]:
    """The words after `poli` of every line that begins with it or runs it as a module."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True) if re.match(r"\s*(poli|python -m poli) ", line) else []
        words = words[: min((words.index(end) for end in (">", "|", "&&") if end in words), default=len(words))]
        if words:
            found.append(words[words.index("poli") + 1 :])
    return found


def mentions(page: Path) -> list[list[str]]:
    """The words of every `poli ...` in running text, which may omit arguments."""
    return [match[1].split() for match in _INLINE.finditer(_FENCE.sub("", page.read_text(encoding="utf-8")))]


def find_command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words select, and the remaining words."""
    command: Any = get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"`poli {' '.join(words)}`: there is no command {words[0]!r}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


def check_options(words: list[str]) -> None:
    """Check that every option exists."""
    command, rest = find_command(words)
    known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | {"--help"}
    for word in rest:
        if word.startswith("--"):
            assert word.partition("=")[0] in known, f"`poli {' '.join(words)}`: there is no option {word}"


def parse(words: list[str]) -> None:
    """Check that the command line accepts these words: all arguments are present and all values are valid."""
    check_options(words)
    command, rest = find_command(words)
    if not {"--help", "--version"} & set(rest):
        command.make_context(command.name, list(rest))


def benchmark_commands(page: Path) -> list[list[str]]:
    """The words of every `python -m benchmarks NAME ...`, in blocks and in running text."""
    return [shlex.split(match[1]) for match in _BENCHMARK.finditer(page.read_text(encoding="utf-8"))]


def parse_benchmark(words: list[str]) -> None:
    """Check that the experiment exists and accepts these options, as far as possible without importing its rivals."""
    name, *rest = words
    if name in ("status", "comparison"):
        return
    assert name in NAMES, f"`python -m benchmarks {' '.join(words)}`: there is no experiment {name!r}"
    if rest:
        experiment = import_module(f"benchmarks.experiments.{name}")
        parse_options(experiment, name, ["all" if word == "NAME" else word for word in rest])

"""`--help` of every command, found by walking the application: it renders, has examples, and explains every option."""

import re

import pytest
import typer
from typer.testing import CliRunner

from poli.cli import app


def commands(group, path=()):
    """Every command and command group, with the words that call it."""
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))
VERBS = {path: command for path, command in COMMANDS.items() if not hasattr(command, "commands")}


def render(path, width="200"):
    result = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": width, "TERM": "dumb"}, prog_name="poli")
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("path", VERBS, ids=" ".join)
def test_every_command_has_examples_on_separate_lines(path):
    lines = [line.strip() for line in render(path).splitlines()]
    start = next(number for number, line in enumerate(lines) if re.fullmatch(r"Examples?:", line))
    examples = lines[start + 1 : lines.index("", start)]
    assert any(line.startswith(f"poli {' '.join(path)}") for line in examples)
    for line in examples:
        assert len(re.findall(r"\b(?:poli|ros2 param) [a-z]", line)) == 1, line
        assert len(line) <= 78  # fits on one line of any terminal


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "poli")
def test_every_option_has_one_line_of_help(path):
    text = re.sub(r"[^\w.,;:/`'()=-]+", " ", render(path, width="400"))  # without boxes
    for parameter in COMMANDS[path].params:
        assert parameter.help, parameter.name
        assert "\n" not in parameter.help
        assert re.sub(r"[^\w.,;:/`'()=-]+", " ", parameter.help).strip() in text


@pytest.mark.parametrize("path", VERBS, ids=" ".join)
def test_every_command_has_the_common_options(path):
    options = {name for parameter in VERBS[path].params for name in parameter.opts}
    assert {"--quiet", "--debug"} <= options
    assert ("--json" in options) == (path[0] != "node")

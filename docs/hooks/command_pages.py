"""The command-line reference, generated from the commands."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command


def command_page() -> str:
    """Every `poli` command with its arguments, options and examples, in Markdown."""
    from poli.cli import app

    root: Any = get_command(app)
    context = typer.Context(root, info_name="poli")
    intro = (
        "`poli --help` lists the commands, `poli COMMAND --help` tells what one takes. This page is made from the same texts. "
        "Trouble is one line on stderr and an exit code above 0. `POLI_NUM_THREADS` sets how many threads are used; all cores if "
        "it is not set."
    )
    return "\n\n".join(["# Command line", intro, *_options(root, context), *_commands(root, context, level=2)]) + "\n"


def _commands(group: Any, parent: typer.Context, level: int) -> Iterator[str]:
    for name, command in group.commands.items():
        context = typer.Context(command, info_name=name, parent=parent)
        yield f"{'#' * level} {context.command_path}"
        text, examples = _split(command.help or "")
        yield text
        if hasattr(command, "commands"):
            yield from _commands(command, context, level + 1)
            continue
        usage = command.get_usage(context).removeprefix("Usage:").strip()
        yield f"```text\n{' '.join(usage.split())}\n```"
        yield from _options(command, context)
        if examples:
            yield "```sh\n" + "\n".join(examples) + "\n```"


def _options(command: Any, context: typer.Context) -> Iterator[str]:
    records = [record for p in command.params if not getattr(p, "hidden", False) and (record := p.get_help_record(context))]
    if records:
        rows = [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in records]
        yield "\n".join(["| | |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _split(text: str) -> tuple[str, list[str]]:
    """Split a command's help into its text and the examples at its end."""
    for mark in ("Examples:", "Example:"):
        before, found, after = text.partition(mark)
        if found:
            return before.strip(), [line.strip() for line in after.strip().splitlines()]
    return text.strip(), []

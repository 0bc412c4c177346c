"""What went wrong, in one line and an exit code."""

import os

import typer

from poli.errors import PoliError
from poli.files.failures import reason
from poli.printable import printable

# What typer raises for a wrong command line. Typer is built on click, or on a copy of it inside: this class is of whichever it is.
_Refusal: type[Exception] = next(kind for kind in reversed(typer.BadParameter.__mro__) if hasattr(kind, "format_message"))

EXIT_CODES = "Exit codes: 0 done; 2 a mistake in the input, the options, the disk or the installation; 130 Ctrl-C; 1 a bug of poli."


def explain(error: BaseException) -> tuple[str, int]:
    """The line to print, empty if there is nothing to say, and the exit code."""
    text, code = _explain(error)
    return printable(" ".join(text.split())), code


def _explain(error: BaseException) -> tuple[str, int]:
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return "interrupted", 130
    if isinstance(error, _Refusal):
        line = _usage(error)
        return line, 2 if line else 0
    if isinstance(error, PoliError):
        return str(error), 2
    if isinstance(error, MemoryError):
        return f"the memory is not enough ({error or 'nothing more is known'}); thin the scan first, as by --voxel 0.2", 2
    if isinstance(error, OSError):
        named = error.filename if isinstance(error.filename, str | bytes) else None
        return f"{f'{os.fsdecode(named)}: ' if named is not None else ''}{reason(error)}", 2
    return f"a bug in poli, {type(error).__name__}: {error}; run it again with --debug and report what that prints", 1


def _usage(error: Exception) -> str:
    message = error.format_message().strip().rstrip(".")  # type: ignore[attr-defined]
    if not message:  # a group of commands without one of them: typer has shown its help
        return ""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "poli COMMAND"
    message = f"{message[:1].lower()}{message[1:]}".replace("Value error, ", "")
    return f"{message}{'' if message.endswith('?') else ';'} `{command} --help` tells more"

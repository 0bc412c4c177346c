"""Map exceptions to messages and exit codes."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer

from poli.errors import PoliError
from poli.files.failures import reason
from poli.printable import printable

# Base class of typer's usage errors. It belongs to click or to typer's bundled copy of click, depending on the version.
_Refusal: type[Exception] = next(kind for kind in reversed(typer.BadParameter.__mro__) if hasattr(kind, "format_message"))

EXIT_CODES = "Exit codes: 0 success; 1 a bug in poli; 2 an error in the input, options, disk or installation; 130 Ctrl-C."


# Temporary files behind standard streams, and their names in messages.
STAND_INS: dict[str, str] = {}


def in_options(error: PoliError, options: Mapping[str, str | None]) -> None:
    """Replace the argument named in an error by the option of the command, using the names in `options`.

    A name ends in `=` if the value is part of it (`--option ending=`). None or a missing name: the command has no such option.
    """
    if error.argument is None:
        return
    name = options.get(error.argument)
    if name is None or error.value is True or (error.value is None and not name.endswith("=")):
        error.respell(name, name or "")
    elif name.endswith("="):
        error.respell(name.rstrip("="), f"{name}{'...' if error.value is None else error.value}")
    else:
        error.respell(name, f"{name} {error.value}")


@contextmanager
def spelled(**options: str | None) -> Iterator[None]:
    """Errors raised inside name these options instead of the library's arguments."""
    try:
        yield
    except PoliError as error:
        if error.argument in options:
            in_options(error, options)
        raise


def explain(error: BaseException) -> tuple[str, int]:
    """Return the line to print (may be empty) and the exit code."""
    text, code = _explain(error)
    return printable(" ".join(text.split())), code


def _explain(error: BaseException) -> tuple[str, int]:
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return "interrupted", 130
    if isinstance(error, _Refusal):
        line = _usage(error)
        return line, 2 if line else 0
    if isinstance(error, PoliError):
        text = str(error)
        for path, name in STAND_INS.items():
            text = text.replace(path, name)
        return text, 2
    if isinstance(error, MemoryError):
        return f"out of memory ({error or 'no details'}); downsample first (--voxel 0.2)", 2
    if isinstance(error, OSError):
        named = error.filename if isinstance(error.filename, str | bytes) else None
        return f"{f'{os.fsdecode(named)}: ' if named is not None else ''}{reason(error)}", 2
    return f"a bug in poli, {type(error).__name__}: {error}; run it again with --debug and report the output", 1


def _usage(error: Exception) -> str:
    message = error.format_message().strip().rstrip(".")  # type: ignore[attr-defined]
    if not message:  # no command given: typer has shown the help
        return ""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "poli COMMAND"
    message = f"{message[:1].lower()}{message[1:]}".replace("Value error, ", "")
    return f"{message}{'' if message.endswith('?') else ';'} see `{command} --help`"

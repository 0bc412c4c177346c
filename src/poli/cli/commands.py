"""A Typer app that adds `--quiet`, `--debug` and, for commands that return results, `--json` to every command."""

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any

import typer
from typer.models import OptionInfo

from poli.cli.output import print_results, reader_left, speaking
from poli.errors import PoliError, printable
from poli.io.atomic import reason

_PANEL = "Common options"
_GLOBAL = {
    "quiet": Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.", rich_help_panel=_PANEL)],
    "debug": Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=_PANEL)],
}
_JSON = Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.", rich_help_panel=_PANEL)]


class Commands(typer.Typer):
    def __init__(self, **settings: Any) -> None:
        # Set explicitly: keeps the line breaks of examples in every version of typer.
        super().__init__(rich_markup_mode="rich", pretty_exceptions_enable=False, no_args_is_help=True, **settings)

    def command(self, *args: Any, **settings: Any) -> Callable[[Callable], Callable]:  # type: ignore[override]
        register = super().command(*args, **settings)

        def add(verb: Callable) -> Callable:
            register(_with_global_options(verb))
            return verb

        return add


# Dataset arguments: passed by --option if a command has no option of that name.
_DATASET_ARGUMENTS = ("ending", "min_range", "poses", "sensor", "sequence", "stamps", "time_unit", "tolerance", "topic")


def _spelling(signature: inspect.Signature) -> dict[str, str | None]:
    """Map the argument names in the library's errors to the options of a command."""
    spelling: dict[str, str | None] = {}
    if "option" in signature.parameters:
        spelling = {name: f"--option {name}=" for name in _DATASET_ARGUMENTS}
    for name, parameter in signature.parameters.items():
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, OptionInfo):
                long = [word for word in info.param_decls or () if word.startswith("--")]
                spelling[name] = long[0] if long else f"--{name.replace('_', '-')}"
    return spelling


def _with_global_options(verb: Callable) -> Callable:
    signature = inspect.signature(verb, eval_str=True)
    spelling = _spelling(signature)
    added = _GLOBAL if signature.return_annotation in (None, inspect.Signature.empty) else _GLOBAL | {"json": _JSON}

    @wraps(verb)
    def run(**arguments: Any) -> None:
        chosen = {name: arguments.pop(name) for name in added}  # `debug` is handled by `main`, which looks for it in argv
        wants_json = chosen.get("json", False)
        try:
            with speaking(chosen["quiet"], wants_json):
                results = verb(**arguments)
            if wants_json and results is not None:
                print_results(results)
            sys.stdout.flush()
        except PoliError as error:
            in_options(error, spelling)
            raise
        except KeyboardInterrupt:
            raise typer.Abort from None
        except BrokenPipeError as error:  # typer would exit silently on any of them
            if not reader_left():
                raise RuntimeError("a pipe to another process broke") from error

    options = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=a) for n, a in added.items()]
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *options])  # type: ignore[attr-defined]
    return run


# --- Map exceptions to messages and exit codes.


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

"""A Typer app whose commands take configurations, and `--quiet`, `--debug` and, if they return results, `--json`."""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from poli.cli.output import as_json, reader_left, speaking
from poli.errors import PoliError
from poli.io.atomic import reason
from poli.options import Option, options_of

_PANEL = "Common options"
_GLOBAL = {
    "quiet": Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.", rich_help_panel=_PANEL)],
    "debug": Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=_PANEL)],
}
_JSON = Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.", rich_help_panel=_PANEL)]


class Commands(typer.Typer):
    """A Typer app. An argument whose type is a dataclass becomes one option per option of the dataclass (`poli.options`)."""

    def __init__(self, **settings: Any) -> None:
        # Set explicitly: keeps the line breaks of examples in every version of typer.
        super().__init__(rich_markup_mode="rich", pretty_exceptions_enable=False, no_args_is_help=True, **settings)

    def command(self, *args: Any, **settings: Any) -> Callable[[Callable], Callable]:  # type: ignore[override]
        """Register a command, as Typer does."""
        register = super().command(*args, **settings)

        def add(verb: Callable) -> Callable:
            register(_complete(verb))
            return verb

        return add


class Only:
    """In the annotation of a configuration: the options that a command has (none: all), and its own defaults of others."""

    def __init__(self, *names: str, **defaults: Any) -> None:
        self.names, self.defaults = names, defaults


def _complete(verb: Callable) -> Callable:
    """Return the command as typer takes it: with the options of its configurations and the common ones."""
    signature = inspect.signature(verb, eval_str=True)
    configs = {name: one for name, parameter in signature.parameters.items() if (one := _config(parameter.annotation))}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += _parameters(*configs[name]) if name in configs else [parameter.replace(kind=parameter.KEYWORD_ONLY)]
    added = _GLOBAL if signature.return_annotation in (None, inspect.Signature.empty) else _GLOBAL | {"json": _JSON}
    parameters += [_keyword(name, annotation, False) for name, annotation in added.items()]

    @wraps(verb)
    def run(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in added}  # `debug` is handled by `main`, which looks for it in argv
        wants_json = chosen.get("json", False)
        try:
            made = {name: _made(kind, only, given) for name, (kind, only) in configs.items()}
            with speaking(chosen["quiet"], wants_json):
                results = verb(**{name: value for name, value in given.items() if name in signature.parameters}, **made)
            if wants_json and results is not None:
                typer.echo(as_json(results))
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Abort from None
        except BrokenPipeError as error:  # typer would exit silently on any of them
            if not reader_left():
                raise RuntimeError("a pipe to another process broke") from error

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


# --- The options of a configuration.


def _config(annotation: Any) -> tuple[type, Only] | None:
    """The dataclass of an argument, and which of its options a command has."""
    kind, *more = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    return (kind, more[0] if more else Only()) if is_dataclass(kind) and isinstance(kind, type) else None


def _options(kind: type, only: Only) -> Iterator[Option]:
    for one in options_of(kind):
        if not only.names or one.name in only.names or one.name in only.defaults:
            yield one


def _parameters(kind: type, only: Only) -> Iterator[inspect.Parameter]:
    names = [field.name for field in fields(kind) if "_" in field.name]
    for one in _options(kind, only):
        if _nested(one):
            yield from _parameters(one.kind, Only())
            continue
        help = re.sub(rf"\b({'|'.join(names)})\b", lambda match: f"--{_dashed(match[0])}", one.help) if names else one.help
        value = only.defaults.get(one.name, one.default)
        flag = one.flag or f"--{_dashed(one.name)}"
        if one.kind is bool and "/" not in flag:
            flag = f"{flag}/--no-{_dashed(one.name)}" if value else flag
        metavar = "FILE" if one.read else one.unit.upper() or None
        accepted: Any = Path if one.read else str if one.kind is object else one.kind
        accepted = list[accepted] if one.several else accepted
        info = typer.Option(flag, help=help, metavar=metavar, min=one.least, max=one.most, autocompletion=one.names)
        yield _keyword(one.name, Annotated[accepted | None if value is None else accepted, info], value)


def _made(kind: type, only: Only, given: dict[str, Any]) -> Any:
    """Make a configuration from the values of its options."""
    values = {}
    for one in _options(kind, only):
        value = _made(one.kind, Only(), given) if _nested(one) else given.pop(one.name)
        values[one.name] = one.read(value) if one.read and value is not None else tuple(value or ()) if one.several else value
    return kind(**values)


def _nested(one: Option) -> bool:
    return is_dataclass(one.kind) and one.read is None


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


# --- Map exceptions to messages and exit codes.


# Base class of typer's usage errors. It belongs to click or to typer's bundled copy of click, depending on the version.
_Refusal: type[Exception] = next(kind for kind in reversed(typer.BadParameter.__mro__) if hasattr(kind, "format_message"))

EXIT_CODES = "Exit codes: 0 success; 1 a bug in poli; 2 an error in the input, options, disk or installation; 130 Ctrl-C."


def explain(error: BaseException) -> tuple[str, int]:
    """Return what to print (may be empty) and the exit code."""
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return "interrupted", 130
    if isinstance(error, _Refusal):
        line = _usage(error)
        return line, 2 if line else 0
    if isinstance(error, PoliError):
        return str(error), 2
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

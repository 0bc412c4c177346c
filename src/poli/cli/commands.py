"""A Typer app that adds `--quiet`, `--debug` and, for commands that return results, `--json` to every command."""

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer
from typer.models import OptionInfo

from poli.cli.exit_codes import in_options
from poli.cli.output import print_results, reader_left, speaking
from poli.errors import PoliError

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

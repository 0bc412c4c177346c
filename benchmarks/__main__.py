"""Compare POLI with other methods in the same run: `python -m benchmarks NAME [--json FILE] [options]`, from a clone.

Each experiment prints a table and writes it as Markdown, JSON and plots. Rivals are installed by `pip install -e '.[bench]'`.
`python -m benchmarks status` lists which tables of docs/results are older than what they measure, and `python -m benchmarks
comparison` writes docs/comparison.md from them.
"""

import ast
import pkgutil
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from benchmarks import experiments
from benchmarks.options import parse
from benchmarks.provenance import Origin
from benchmarks.report import publish
from poli.errors import InputError, PoliError, did_you_mean

NAMES = sorted(module.name for module in pkgutil.iter_modules(experiments.__path__))


def main() -> None:
    """Run the command line of this process; a usage error is one line on stderr and exit code 2."""
    try:
        run(sys.argv[1:])
    except PoliError as error:
        sys.stderr.write(f"benchmarks: {error}\n")
        raise SystemExit(2) from None


def run(words: list[str]) -> None:
    if not words or words[0] in ("-h", "--help"):
        print(f"{__doc__}\nExperiments (`python -m benchmarks NAME --help` lists their options):")
        print("\n".join(f"  {name:15} {_first_line(name)}" for name in NAMES))
        return
    name, *rest = words
    if name == "status":
        from benchmarks.status import print_status

        raise SystemExit(print_status())
    if name == "comparison":
        from benchmarks.comparison import write_page

        write_page()
        return
    if name not in NAMES:
        raise InputError(f"no experiment {name!r}; choose from {', '.join(NAMES)}{did_you_mean(name, NAMES)}")
    experiment = import_module(f"benchmarks.experiments.{name}")
    options, out, json_path = parse(experiment, f"python -m benchmarks {name}", rest)
    models = experiment.models_of(options) if hasattr(experiment, "models_of") else getattr(experiment, "MODELS", ())
    origin = Origin.of(name, models, options)
    for number, report in enumerate(experiment.run(options)):
        publish(report, out, None if number else json_path, origin)


def _first_line(name: str) -> str:
    """First docstring line of an experiment, without the slow import."""
    spec = find_spec(f"benchmarks.experiments.{name}")
    assert spec is not None
    assert spec.origin is not None
    return (ast.get_docstring(ast.parse(Path(spec.origin).read_text())) or "").partition("\n")[0]


if __name__ == "__main__":
    main()

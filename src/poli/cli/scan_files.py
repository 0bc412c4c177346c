"""Scan files that a command names: `-` is standard input or output, and what is wrong is told in the command line's words."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from poli.cli.output import data_stream, say, user_stdout

if TYPE_CHECKING:
    from poli.scan import Dropped, Scan

SCAN_FILES = "A .bin, .pcd, .ply, .xyz, .csv, .npy, .npz, .las or .laz file; -: standard input."
_STDIN, _STDOUT = "standard input", "standard output"  # what the temporary files behind `-` are called, in errors too


def format_names() -> list[str]:
    from poli.data.formats import FORMATS

    return [known.name for known in FORMATS]


ScanFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Of the input, where its name does not tell: pcd, ply, kitti, nuscenes, text, npy, npz or las.",
        autocompletion=format_names,
    ),
]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="The same as OUT.")]


def is_pipe(path: Path) -> bool:
    return str(path) == "-"


def one_output(argument: Path | None, option: Path | None) -> Path:
    """OUT may be given in its place or by --out."""
    from poli.errors import InputError

    if argument is not None and option is not None:
        raise InputError(f"OUT is given twice, as {argument} and as --out {option}; leave one of the two out")
    out = argument if option is None else option
    if out is None:
        raise InputError("there is no OUT; say which file to write, or - for standard output")
    return out


def read_scan(path: Path, format: str | None = None) -> "Scan":
    """With its points; a file that holds none is refused. What was dropped is said."""
    from poli.data import read
    from poli.errors import FormatError

    name = _STDIN if is_pipe(path) else path
    try:
        scan = _read_stdin(format) if is_pipe(path) else read(path, format)
    except FormatError as error:
        raise FormatError(str(error).replace("pass format=", "say --format ").rstrip()) from None
    dropped = scan.dropped
    if dropped.total:
        say(f"{name}: dropped {_listed(dropped)}")
    if not len(scan):
        why = f"all {dropped.total} are non-finite or zero returns" if dropped.total else "the file has none"
        raise FormatError(f"{name}: no points are left: {why}; give a scan that has some")
    return scan


def check_place(out: Path, *inputs: Path) -> None:
    """Whether OUT can be written, and is none of the inputs, before there is something to write."""
    from poli.files.atomic import check_new_file, refuse_overwriting

    sources = [_behind(sys.stdin) if is_pipe(source) else source for source in inputs]
    target = _behind(user_stdout()) if is_pipe(out) else out
    if target is not None:
        refuse_overwriting(target, *(source for source in sources if source is not None), name=_STDOUT if is_pipe(out) else out)
    if not is_pipe(out):
        check_new_file(out)


def _behind(stream: TextIO) -> int | None:
    """The descriptor of a standard stream, which a shell may have tied to a file."""
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None


def check_count(scan: "Scan", path: Path, model: str) -> None:
    """Before the network says so, which does not know the name of the file."""
    from poli.errors import InputError
    from poli.estimation.inference import load_model

    least = load_model(model).architecture.least_points
    if len(scan) < least:
        raise InputError(f"{path}: {counted(len(scan), 'point')}; model {model} needs at least {least}, give it more of them")


def _listed(dropped: "Dropped") -> str:
    reasons = ((dropped.nonfinite, "non-finite point"), (dropped.zero, "zero return"))
    return " and ".join(counted(count, what) for count, what in reasons if count)


def counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """What is wrong with the points of a file is told with its name, which the library does not know."""
    from poli.errors import InputError

    name = _STDIN if is_pipe(path) else str(path)
    try:
        yield
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(name) else f"{name}: {error}") from None


def _read_stdin(format: str | None) -> "Scan":
    import shutil

    from poli.data import read
    from poli.data.formats import sniff
    from poli.errors import FormatError, InputError
    from poli.files.temporary import temporary_folder

    if sys.stdin.isatty():
        raise InputError("-: standard input is a terminal; pipe a scan into it, as in `cat scan.pcd | poli ...`")
    with temporary_folder() as folder:
        path = folder / _STDIN
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            return read(path, format or sniff(path))
        except FormatError as error:
            raise FormatError(str(error).replace(str(path), _STDIN)) from None


@contextmanager
def output_file(out: Path, ending: str) -> Iterator[Path]:
    """Where to write what goes to `out`. For `-`, a temporary file with that ending, sent to standard output when it is whole."""
    from poli.errors import FormatError

    try:
        if is_pipe(out):
            with _standard_output(ending) as path:
                yield path
        else:
            yield out
    except FormatError as error:
        raise FormatError(str(error).replace(", or pass format=", "").replace(", or scan.keep(...)", "")) from None


@contextmanager
def _standard_output(ending: str) -> Iterator[Path]:
    from poli.errors import FormatError
    from poli.files.temporary import temporary_folder

    stream = data_stream()
    with temporary_folder() as folder:
        path = folder / f"{_STDOUT}{ending}"
        try:
            yield path
        except FormatError as error:
            raise FormatError(str(error).replace(str(path), _STDOUT)) from None
        stream.write(path.read_bytes())
        stream.flush()

"""Inputs and outputs named on the command line: scan files, where `-` is standard input or output, datasets and models."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from poli.beams.corrections import BeamCalibration
from poli.cli.commands import Only
from poli.cli.output import data_stream, say
from poli.configs import calibration_option, network_option
from poli.errors import FormatError, InputError, PoliError
from poli.options import check, option

if TYPE_CHECKING:
    from poli.io.datasets import Dataset
    from poli.scan import Scan

SCAN_FILES = "A .bin, .pcd, .ply, .xyz, .csv, .npy, .npz, .las or .laz file; -: standard input."
_STDIN, _STDOUT = "standard input", "standard output"  # names of the temporary files behind `-` in messages


def format_names() -> list[str]:
    """The known formats of scan files."""
    from poli.io.formats import FORMATS

    return [known.name for known in FORMATS]


_FORMAT = "Input format if the file name is ambiguous: pcd, ply, kitti, nuscenes, text, npy, npz or las."
ScanFormat = Annotated[str | None, typer.Option("--format", help=_FORMAT, autocompletion=format_names)]


def is_pipe(path: Path) -> bool:
    """Whether a path stands for standard input or output."""
    return str(path) == "-"


def read_scan(path: Path, format: str | None = None) -> Scan:
    """Read a scan and report dropped points. Raises FormatError if no points are left."""
    from poli.io.formats import read

    name = _STDIN if is_pipe(path) else path
    scan = _read_stdin(format) if is_pipe(path) else read(path, format)
    dropped = scan.dropped
    if dropped.total:
        reasons = ((dropped.nonfinite, "non-finite point"), (dropped.zero, "zero return"))
        say(f"{name}: dropped {' and '.join(counted(count, what) for count, what in reasons if count)}")
    if not len(scan):
        why = f"all {dropped.total} are non-finite or zero returns" if dropped.total else "the file has none"
        raise FormatError(f"{name}: no points are left: {why}; give a scan with points")
    return scan


def check_place(out: Path, *inputs: Path) -> None:
    """Check that OUT can be written and is not one of the inputs, before doing any work."""
    from poli.io.atomic import check_new_file, refuse_overwriting

    if not is_pipe(out):
        refuse_overwriting(out, *(source for source in inputs if not is_pipe(source)))
        check_new_file(out)


def counted(count: int, what: str) -> str:
    """A count with its noun."""
    return f"{count} {what}{'' if count == 1 else 's'}"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the name of the file to errors about its points."""
    try:
        yield
    except InputError as error:
        error.about(_STDIN if is_pipe(path) else path)
        raise


def _read_stdin(format: str | None) -> Scan:
    import shutil

    from poli.io.formats import read, sniff

    if sys.stdin.isatty():
        raise InputError("-: standard input is a terminal; pipe a scan into it: `cat scan.pcd | poli ...`")
    with _stand_in(_STDIN) as path:
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return read(path, format or sniff(path))


@contextmanager
def output_file(out: Path, ending: str) -> Iterator[Path]:
    """Yield the path to write to. For `-`, a temporary file with that ending, copied to standard output when complete."""
    if not is_pipe(out):
        yield out
        return
    stream = data_stream()
    with _stand_in(_STDOUT, ending) as path:
        yield path
        stream.write(path.read_bytes())
        stream.flush()


@contextmanager
def _stand_in(name: str, ending: str = "") -> Iterator[Path]:
    """A temporary file behind a standard stream; errors have the name of the stream."""
    from poli.io.atomic import temporary_folder

    with temporary_folder() as folder:
        path = folder / f"{name}{ending}"
        try:
            yield path
        except PoliError as error:
            error.args = (str(error).replace(str(path), name), *error.args[1:])
            raise


# --- Clouds in map coordinates (UTM and the like): center them for computing and drawing.
#
# The network assumes the sensor at the origin, and 4-byte floats round such coordinates to centimeters or worse. So commands
# subtract an offset of whole hundreds of meters. Outputs that can hold 8-byte floats get the original coordinates back.

_FAR = 8192.0  # meters: beyond it, 4-byte floats are coarser than a millimeter, and no LiDAR sees this far
_NEAR = 1000.0  # meters: axes whose coordinates are smaller are left alone, such as heights
_APART = 4.0  # times the spread of the points: nearer, the origin may be a sensor among them
_ROUND = 100.0  # meters
_ABOVE = 1e4  # meters above the points: normals of maps face up


def map_offset(scan: Scan) -> np.ndarray | None:  # (3,)
    """The offset of a cloud in map coordinates, in whole hundreds of meters; None if its origin may be the sensor."""
    points = scan.points
    if not len(points):
        return None
    middle = np.median(points.astype(np.float64), axis=0)
    spread = float(np.median(np.linalg.norm(points - middle, axis=1)))
    if not np.linalg.norm(middle) > max(_FAR, _APART * spread):
        return None
    return np.where(np.abs(middle) < _NEAR, 0.0, np.rint(middle / _ROUND) * _ROUND)


def shift(offset: np.ndarray) -> np.ndarray:  # (3,) -> (4, 4)
    """The pose that adds an offset."""
    T = np.eye(4)
    T[:3, 3] = offset
    return T


def above(offset: np.ndarray | None) -> np.ndarray | None:  # (3,)
    """Where normals face in centered map coordinates: up, since the sensor's position is unknown."""
    return None if offset is None else np.array([0.0, 0.0, _ABOVE])


def offset_text(offset: np.ndarray) -> str:
    """An offset in messages."""
    return f"({', '.join(f'{value:.0f}' for value in offset)})"


def centered(path: Path, scan: Scan, then: str, center: bool = True) -> tuple[Scan, np.ndarray | None]:
    """Return a cloud in map coordinates as 8-byte floats relative to its offset, and that offset, (3,); other clouds unchanged.

    Says what follows from it, and whether the file had rounded the coordinates already. Without `center`, nothing is moved.
    """
    offset = map_offset(scan)
    if offset is None:
        return scan, None
    say(f"{path}: map coordinates; {then.format(offset=offset_text(offset))}")
    if scan.points.dtype == np.float32:
        step = float(np.spacing(np.float32(np.abs(offset).max())))
        say(f"{path}: stores 4-byte floats, which round these coordinates to {step:.2g} m", to_stderr=True)
    points = scan.points.astype(np.float64)
    return (replace(scan, points=points - offset), offset) if center else (replace(scan, points=points), None)


# --- Datasets and models.


LogPath = Annotated[Path, typer.Argument(metavar="DATA", help="A dataset, a folder of scan files, or a ROS bag.")]


def dataset_kinds() -> list[str]:
    """The known kinds of datasets."""
    from poli.io.datasets import dataset_names

    return ["auto", *dataset_names()]


@dataclass(frozen=True)
class DatasetOptions:
    """Which dataset a path holds, and which part of it."""

    dataset: str = option("auto", "Kind of data: kitti, helipr, mulran, poli, bag, folder, ...; auto: detect.", names=dataset_kinds)
    sequence: str | None = option(None, "Sequence, for datasets with several.")
    topic: str | None = option(None, "Bags: point cloud topic, if there are several.")
    sensor: str | None = option(None, "HeLiPR: sensor (velodyne, ouster, aeva or avia).")
    calibration: BeamCalibration | None = calibration_option()
    option: tuple[str, ...] = option((), "Any other dataset option as KEY=VALUE, such as poses=false; repeatable.")

    @property
    def given(self) -> dict[str, Any]:
        """The named options and those of the form KEY=VALUE."""
        named = {"sequence": self.sequence, "topic": self.topic, "sensor": self.sensor}
        texts = {name: value for name, value in named.items() if value is not None}
        values: dict[str, Any] = {}
        for text in self.option:
            key, equals, value = text.partition("=")
            if not equals or not key:
                raise InputError(f"--option {text}: expected KEY=VALUE, such as poses=false")
            if key in texts or key in values:
                raise InputError(f"--option {text}: {key} is given twice; remove one")
            values[key] = value if key in named else _value(value)
        return {**texts, **values}

    def open(self, data: Path) -> Dataset:
        """Open the dataset, with corrected beams if a calibration is given."""
        from poli.io.datasets import CalibratedDataset

        opened = open_data(data, self.dataset, self.given)
        return opened if self.calibration is None else CalibratedDataset(opened, self.calibration)


AsRecorded = Annotated[DatasetOptions, Only("dataset", "sequence", "topic", "sensor", "option")]  # without --calibration


def open_data(data: Path, name: str, options: dict[str, Any]) -> Dataset:
    """Open a dataset, and name its options if they are of the wrong type."""
    from poli.io.datasets import SkippedWarning, dataset

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkippedWarning)  # reported at the end
            return dataset(name, data, **options)
    except (TypeError, AttributeError) as error:
        if not options:
            raise
        given = ", ".join(f"{key}={value!r}" for key, value in options.items())
        raise InputError(f"{data}: cannot be opened with the options {given} ({error}); change or remove one of them") from None


def _value(text: str) -> Any:
    """A number, true or false, or the text itself."""
    with suppress(ValueError):
        return json.loads(text.lower())
    return text


@dataclass(frozen=True)
class NetworkOption:
    """A network, for commands that take no other option of a model."""

    model: str = network_option()

    def __post_init__(self) -> None:
        check(self)


def file_name(name: str) -> str:
    """A name as part of the name of a file."""
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "data"

"""LAS and LAZ by laspy (the extra `las`)."""

from pathlib import Path

import numpy as np

from poli.errors import FormatError, MissingExtra
from poli.files.atomic import atomic_path
from poli.scan import Scan

_STEP = 1e-4  # metres: LAS stores whole multiples of this


def read_las(path: Path) -> Scan:
    """Coordinates in float64; every dimension of the file that is not all zero is a field."""
    laspy = _laspy()
    try:
        with laspy.open(str(path)) as reader:
            _check_size(path, reader.header)
            las = reader.read()
            points = np.stack([np.asarray(las.x), np.asarray(las.y), np.asarray(las.z)], axis=-1)
            fields = {name: np.array(las[name]) for name in las.point_format.dimension_names if name not in ("X", "Y", "Z")}
    except FormatError:
        raise
    except Exception as error:  # laspy and its LAZ back end raise many kinds, some of them straight from Exception
        raise FormatError(f"{path}: not a readable LAS file: {str(error)[:200]}") from None
    return Scan(points, {name: values for name, values in fields.items() if values.any()})


def write_las(path: Path, scan: Scan) -> None:
    """Coordinates to a tenth of a millimetre. A field that LAS defines with a type too small for it is an error."""
    laspy = _laspy()
    if not np.isfinite(scan.points).all():
        raise FormatError(f"{path}: LAS cannot hold non-finite points; drop them with scan.clean()")
    header = laspy.LasHeader(point_format=6, version="1.4")
    header.scales = np.full(3, _STEP)
    header.offsets = np.floor(scan.points.min(axis=0)) if len(scan) else np.zeros(3)
    standard = set(header.point_format.dimension_names)
    for name, values in scan.fields.items():
        if name not in standard:
            try:
                kind = f"{values.shape[1]}{values.dtype.str[1:]}" if values.ndim == 2 else values.dtype
                header.add_extra_dim(laspy.ExtraBytesParams(name=name, type=kind))
            except Exception as error:
                raise FormatError(f"{path}: LAS cannot hold field '{name}' of type {values.dtype}: {error}") from None
    las = laspy.LasData(header)
    try:
        las.x, las.y, las.z = scan.points.T.astype(np.float64)
        for name, values in scan.fields.items():
            las[name] = values
            if not np.array_equal(np.asarray(las[name]).astype(values.dtype), values):
                raise FormatError(
                    f"{path}: LAS cannot hold field '{name}' of type {values.dtype} without loss; use .pcd or .npz, or rename it"
                )
    except FormatError:
        raise
    except Exception as error:
        raise FormatError(f"{path}: {str(error)[:200]}") from None
    with atomic_path(path) as temporary:
        try:
            las.write(str(temporary))
        except Exception as error:
            if type(error).__name__ != "LazrsError":
                raise
            raise OSError(str(error)) from None  # of the compressor, which knows no more of it


def _check_size(path: Path, header) -> None:
    """A header can promise any number of points; LAZ squeezes a point to no less than a few bits."""
    if path.stat().st_size < header.offset_to_point_data:
        raise FormatError(f"{path}: {path.stat().st_size} bytes are fewer than the header itself announces; the file is cut off")
    promised = header.point_count * header.point_format.size
    ratio = 1000 if header.are_points_compressed else 1
    if promised > path.stat().st_size * ratio:
        raise FormatError(
            f"{path}: the header promises {header.point_count} points, {promised} bytes, more than the file can hold; "
            "it is cut off or damaged"
        )


def _laspy():
    try:
        import laspy
    except ImportError:
        raise MissingExtra("reading and writing .las and .laz", "las") from None
    return laspy

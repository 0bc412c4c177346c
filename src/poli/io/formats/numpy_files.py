"""NumPy files (.npy, .npz). Pickled objects are never loaded."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np

from poli.errors import FormatError
from poli.io.atomic import atomic_path
from poli.io.limits import read_npz_arrays
from poli.io.ply import read_ply_element, write_ply
from poli.scan import Scan

# --- Convert scans to and from record arrays with columns x, y, z and one per field, and PLY files of such records.


def scan_from_records(records: np.ndarray, path: str | os.PathLike[str]) -> Scan:
    """Convert records to a scan: x, y, z become the points, in the widest of their types, and the other columns fields."""
    return Scan.from_columns({name: records[name] for name in records.dtype.names or ()}, os.fspath(path))


def records_from_scan(scan: Scan, flat: bool) -> np.ndarray:
    """Convert a scan to records. `flat` splits a field of c columns into `name_0` ... `name_(c-1)`; booleans become uint8."""
    columns: list[tuple[str, np.ndarray]] = [(axis, scan.points[:, i]) for i, axis in enumerate("xyz")]
    for name, values in scan.fields.items():
        values = values.astype(np.uint8) if values.dtype == np.bool_ else values
        if flat and values.ndim == 2:
            columns += [(f"{name}_{i}", values[:, i]) for i in range(values.shape[1])]
        else:
            columns.append((name, values))
    repeated = [n for i, (n, _) in enumerate(columns) if n in [m for m, _ in columns[:i]]]
    if repeated:
        raise FormatError(f"two fields would both be written as '{repeated[0]}'; rename one")
    records = np.empty(len(scan), [(n, v.dtype.newbyteorder("="), v.shape[1:]) for n, v in columns])
    for name, values in columns:
        records[name] = values
    return records


def check_names(records: np.ndarray, path: str | os.PathLike[str], forbidden: str = " \t\r\n") -> None:
    """Raise FormatError for column names that a text header cannot represent."""
    for name in records.dtype.names or ():
        if any(c in name for c in forbidden) or not name.isascii():
            raise FormatError(f"{path}: the field name {name!r} is not valid in the header of this format; rename the field")


def read_ply_scan(path: Path) -> Scan:
    """Read the vertices of a PLY file."""
    return scan_from_records(read_ply_element(path, "vertex"), path)


def write_ply_scan(path: Path, scan: Scan) -> None:
    """Write a scan as the vertices of a PLY file."""
    records = records_from_scan(scan, flat=True)
    check_names(records, path)
    write_ply(path, records)


def read_npy(path: Path) -> Scan:
    """Read an (N, 3) array, an (N, 4) array with intensity, or a record array with columns x, y, z."""
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise FormatError(f"{path}: not a .npy file; it is damaged or has another format")
    try:
        # Memory-mapped: a header that declares more than the file contains fails before anything is allocated.
        with np.errstate(over="ignore"):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy's header parser raises many types
        raise FormatError(f"{path}: {str(error)[:200]}") from None
    if array.dtype.itemsize == 0 and array.size:  # no data in the file, and a loop over the entries may never end
        raise FormatError(f"{path}: array of shape {array.shape} has entries of zero bytes; the file is damaged")
    if array.dtype.names:
        return scan_from_records(np.array(array), path)
    if array.ndim != 2 or array.shape[1] not in (3, 4) or array.dtype.kind not in "fiu":
        raise FormatError(f"{path}: shape {array.shape} and type {array.dtype}; expected numbers of shape (N, 3) or (N, 4)")
    array = np.array(array, dtype=array.dtype.newbyteorder("="))
    return Scan(array[:, :3], {"intensity": array[:, 3]} if array.shape[1] == 4 else {})


def write_npy(path: Path, scan: Scan) -> None:
    """Write a plain (N, 3) array if the scan has no fields, otherwise a record array."""
    content = io.BytesIO()  # given a file, numpy ignores errors on close, such as a full disk
    np.save(content, records_from_scan(scan, flat=False) if scan.fields else scan.points)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def read_npz(path: Path) -> Scan:
    """Read `points` (N, 3) and an optional `stamp` in nanoseconds; every other array becomes a field."""
    arrays = read_npz_arrays(path)
    points = arrays.pop("points", None)
    if points is None:
        raise FormatError(f"{path}: the archive has no array 'points'; its arrays: {', '.join([*arrays][:20]) or 'none'}")
    stamp = arrays.pop("stamp", None)
    if stamp is not None and (stamp.shape != () or stamp.dtype.kind not in "iu"):
        raise FormatError(f"{path}: 'stamp' must be a single integer, in nanoseconds")
    return Scan(points, arrays, stamp=None if stamp is None else int(stamp))


def write_npz(path: Path, scan: Scan, compressed: bool = False) -> None:
    """Write `points`, the fields, and `stamp` if it is known."""
    clash = [n for n in scan.fields if n in ("points", "stamp", "file")]
    if clash:
        raise FormatError(f"{path}: '{clash[0]}' is reserved in .npz; rename the field")
    arrays: dict[str, np.ndarray] = {"points": scan.points, **scan.fields}
    if scan.stamp is not None:
        arrays["stamp"] = np.array(scan.stamp, np.int64)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        (np.savez_compressed if compressed else np.savez)(file, **arrays)  # type: ignore[arg-type]

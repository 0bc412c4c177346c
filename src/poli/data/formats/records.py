"""Convert scans to and from record arrays with columns x, y, z and one per field, and PLY files of such records."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from poli.errors import FormatError
from poli.files.ply import Encoding, read_ply_element, write_ply
from poli.scan import Scan


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
    return scan_from_records(read_ply_element(path, "vertex"), path)


def write_ply_scan(path: Path, scan: Scan, encoding: Encoding = "binary_little_endian") -> None:
    records = records_from_scan(scan, flat=True)
    check_names(records, path)
    write_ply(path, records, encoding=encoding)

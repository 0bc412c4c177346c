"""PLY point clouds: the vertices, every property of theirs a field."""

from pathlib import Path

from poli.data.formats.records import check_names, records_from_scan, scan_from_records
from poli.files.ply import Encoding, read_ply_element, write_ply
from poli.scan import Scan


def read_ply_scan(path: Path) -> Scan:
    return scan_from_records(read_ply_element(path, "vertex"), path)


def write_ply_scan(path: Path, scan: Scan, encoding: Encoding = "binary_little_endian") -> None:
    records = records_from_scan(scan, flat=True)
    check_names(records, path)
    write_ply(path, records, encoding=encoding)

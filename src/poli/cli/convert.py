"""`poli convert`: write a scan file in another format."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli import inputs as files
from poli.cli.output import busy, say
from poli.errors import FormatError, WriteError

if TYPE_CHECKING:
    from poli.scan import Scan
_TO = "Output format if OUT's name is ambiguous: pcd, ply, kitti, nuscenes, text, npy, npz or las; default for -: pcd."


def convert(
    scan: Annotated[Path, typer.Argument(metavar="IN", help=files.SCAN_FILES)],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output file; -: standard output.")],
    to: Annotated[str | None, typer.Option(help=_TO, autocompletion=files.format_names)] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Drop fields that the output format cannot store.")] = False,
    center: Annotated[bool, typer.Option("--center", help="Map coordinates: 4-byte floats relative to a printed offset.")] = False,
    format: files.ScanFormat = None,
) -> dict[str, Any]:
    """Write a scan in another format, with all its fields.

    Non-finite points and zero returns are dropped. A field that the output
    format cannot store is an error unless --drop is given.

    Map coordinates, such as UTM, stay as they are, in 8-byte floats. .bin files
    hold 4-byte floats, so they are written relative to an offset, which is printed;
    --center does the same for programs that read no 8-byte floats.

    Examples:
    poli convert scan.bin scan.pcd
    poli convert sweep.pcd.bin sweep.bin --drop
    poli convert scan.bin scan.ply --format nuscenes
    poli convert tile.laz tile.pcd --center
    cat scan.laz | poli convert - - --to npz > scan.npz
    """
    import numpy as np

    from poli.io.formats import FORMATS, check_ending, output_format, write

    if files.is_pipe(out):
        to = to or "pcd"
    files.check_place(out, scan)
    ending = next((known.endings[0] for known in FORMATS if known.name == to), "")
    with files.output_file(out, ending) as path:
        check_ending(path, to)
        with busy(f"reading {scan}"):
            points = files.read_scan(scan, format)
        center = center or output_format(path, to) in ("kitti", "nuscenes")
        keeps = "OUT keeps them as 8-byte floats; --center writes 4-byte floats relative to {offset}"
        points, offset = files.centered(scan, points, "OUT is relative to {offset}" if center else keeps, center)
        if offset is not None:
            points = replace(points, points=points.points.astype(np.float32))
        with busy(f"writing {out}"):
            kept = _holdable(points, path.name, to) if drop else points
            write(kept, path, to)
    left_out = [name for name in points.fields if name not in kept.fields]
    without = f", without {', '.join(left_out)}" if left_out else ""
    say(f"{out}: {files.counted(len(kept), 'point')} with {', '.join(kept.fields) or 'no fields'}{without}")
    told = {"out": out, "points": len(kept), "fields": list(kept.fields), "left_out": left_out}
    return {**told, "dropped": points.dropped, "offset": offset}


def _holdable(scan: "Scan", name: str, to: str | None) -> "Scan":
    """The scan with only the fields the output can store. Each field is tried, since this depends on its values."""
    from poli.io.atomic import temporary_folder
    from poli.io.formats import write

    held = []
    with temporary_folder() as folder:
        for field in scan.fields:
            try:
                write(scan.keep(field), folder / name, to)
            except WriteError:  # not caused by a field
                raise
            except FormatError:
                continue
            held.append(field)
    return scan.keep(*held)

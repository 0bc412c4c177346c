"""`poli view`: show scans, ellipsoids and odometry as an interactive page, a picture, or in rerun."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.data_options import DatasetName, DatasetOptions, ModelName, SensorName, SequenceName, TopicName, dataset_options
from poli.cli.output import say
from poli.cli.scan_files import check_place, is_pipe, naming

if TYPE_CHECKING:
    from poli.cli.view_content import Subject
    from poli.viewer.panel import Panel


class Theme(StrEnum):
    """Backgrounds of the page."""

    dark = "dark"
    light = "light"


def _colorings() -> list[str]:
    return ["normal", "planarity", "uncertainty", "height", "own", "layer", "intensity", "ring", "time"]


def view(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A scan, an ellipsoid file (.npz, .ply), a folder of scans, a bag or a `poli odometry` result; -: standard input.",
        ),
    ],
    other: Annotated[
        Path | None, typer.Argument(metavar="OTHER", help="A second scan, to show both in one frame in two colors.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Output .html page or .rrd recording; default: NAME.html in the current folder.")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Render a picture to this .png file, without a browser.")] = None,
    rerun: Annotated[bool, typer.Option("--rerun", help="Show it in the rerun viewer (extra `view`).")] = False,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    model: ModelName = "lidar",
    voxel: Annotated[
        float | None,
        typer.Option(min=0.0, help="Scans: voxel size in meters; 0: use every point; default: 0.5, for objects 0."),
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Single scan: also show PCA, and the truth if simulated.")] = False,
    pose: Annotated[
        Path | None, typer.Option(help="With OTHER: text file of the 4x4 pose of DATA in OTHER's frame (`poli register --out`).")
    ] = None,
    original: Annotated[
        Path | None,
        typer.Option(
            help="DATA was densified from this scan: show the samples in another color. Files do not mark them; the originals are "
            "its first points, which is checked."
        ),
    ] = None,
    sigma: Annotated[float, typer.Option(min=0.0, max=3.0, help="Size of the drawn ellipsoids, in standard deviations.")] = 2.0,
    color: Annotated[
        str | None,
        typer.Option(
            help="Initial coloring of the page: normal, planarity, uncertainty, height, own, layer, or a field such as intensity; "
            "default: normal, for maps of points height, for two clouds layer.",
            autocompletion=_colorings,
        ),
    ] = None,
    theme: Annotated[Theme, typer.Option(help="Initial theme of the page.")] = Theme.dark,
    dataset: DatasetName = "auto",
    sequence: SequenceName = None,
    topic: TopicName = None,
    sensor: SensorName = None,
    option: DatasetOptions = None,
    scans: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Folders: maximum number of scans, evenly spaced; 0: no timeline; default: 200 in the timeline, 50 fused by known "
            "poses, in rerun all.",
        ),
    ] = None,
    side_by_side: Annotated[
        bool, typer.Option("--side-by-side", help="Folders without poses: show scans (default: 4) in panels, without a timeline.")
    ] = False,
) -> dict[str, Any]:
    """View scans, ellipsoids and odometry.

    Writes a self-contained HTML page that opens in any browser. The ellipsoids of
    scans are estimated first. Folders, bags and odometry runs have a timeline; if
    the poses are known, also the scans fused into one world, or the map, and the
    trajectory. Click a point to read its numbers. Clouds in map coordinates, such
    as UTM, are centered, and the offset is printed.

    Examples:
    poli view scan.pcd --open
    poli view scan.bin --compare --voxel 0.5 --out town.html
    poli view field.npz --color uncertainty --theme light
    poli view scan.pcd --color intensity
    poli view source.pcd target.pcd --pose pose.txt
    poli view dense.pcd --original raw.pcd
    poli view kitti --sequence 07 --scans 100
    poli view results/odometry/kitti_07/latest --out drive.rrd
    poli view part.ply --model objects --png part.png
    cat scan.pcd | poli view - --out scan.html
    """
    from poli.cli.view_content import densified_subject, overlay_subject, subject_of
    from poli.errors import FormatError, InputError
    from poli.viewer.content import Estimates

    if out is not None and out.suffix.lower() not in (".html", ".htm", ".rrd"):
        raise FormatError(f"--out {out}: write a page as .html or a rerun recording as .rrd; use --png for pictures")
    if png is not None and png.suffix.lower() != ".png":
        raise FormatError(f"--png {png}: the name of a picture must end in .png")
    recorded = out if out is not None and out.suffix.lower() == ".rrd" else None
    page = None if recorded is not None else out
    to_rerun = rerun or recorded is not None
    if page is None and png is None and not to_rerun:
        page = _free_name(data)
    if browser and page is None:
        raise InputError("--open: no page is written; remove it, or give --out NAME.html")
    if compare and model == "pca":
        raise InputError("--compare: compares a network with PCA; choose a network with --model, or remove --compare")
    if pose is not None and other is None:
        raise InputError(f"--pose {pose}: is the pose between two scans; give the second one, too")
    if original is not None and other is not None:
        raise InputError(f"--original {original}: cannot be combined with a second scan; remove one of the two")
    if compare and (other is not None or original is not None):
        raise InputError("--compare: only one scan can be compared; remove it, or give one scan")
    inputs = [path for path in (data, other, pose, original, Path(model)) if path is not None]
    for written in (page, png, recorded):
        if written is not None:
            check_place(written, *inputs)
    how = Estimates(model, voxel, compare)
    if other is not None:
        subject = overlay_subject(data, other, pose, how)
    elif original is not None:
        subject = densified_subject(data, original)
    else:
        options = dataset_options(option or [], sequence, topic, sensor)
        subject = subject_of(data, dataset, options, how, scans, side_by_side)
    for line in subject.remarks:
        say(line)
    if page is not None:
        with naming(data):
            _write_page(page, subject, sigma, color or subject.color, theme, browser)
    if png is not None:
        from poli.viewer.picture import draw_panels, write_png

        write_png(png, draw_panels(subject.stills, sigma))
        say(f"{png}: {_listed(subject.stills)}")
    if to_rerun:
        from poli.viewer.rerun_recording import record

        count = record(recorded, subject.moments(), subject.tracks, lambda: subject.stills, sigma)
        say(f"{recorded or 'rerun'}: {f'{count} scans' if count else _listed(subject.stills)}")
    return {"name": subject.name, "about": subject.note, "page": page, "png": png, "recording": recorded}


def _write_page(page: Path, subject: "Subject", sigma: float, color: str, theme: Theme, browser: bool) -> None:
    from poli.viewer.page import write_page

    panels = subject.panels()
    left_out = write_page(page, subject.name, panels, note=subject.note, sigma=sigma, color=color, theme=theme.value)
    for line in left_out:
        say(f"shown: {line}", to_stderr=True)
    for panel in panels:
        if panel.frames:
            say(f"{panel.name}: {panel.caption}")
    say(f"{page}: {_listed(panels)}, {page.stat().st_size / 1e6:.1f} MB; open it in a browser")
    if browser:
        import webbrowser

        if not webbrowser.open(page.resolve().as_uri()):
            say("no browser found; open the page manually", to_stderr=True)


def _listed(panels: "Sequence[Panel]") -> str:
    names = [panel.name for panel in panels]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _free_name(data: Path) -> Path:
    """NAME.html in the current folder, if it does not exist or was written by poli."""
    from poli.cli.data_options import file_name
    from poli.errors import FormatError

    name = "scan" if is_pipe(data) else data.resolve().stem if data.is_file() else data.resolve().name
    page = Path(f"{file_name(name)}.html")
    if page.is_file():
        with page.open("rb") as file:
            ours = b'name="generator" content="poli"' in file.read(2000)
        if not ours:
            raise FormatError(f"{page}: already exists and was not written by poli view; choose another name with --out")
    return page

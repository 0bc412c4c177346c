"""`poli view`: show scans, ellipsoids and odometry as an interactive page, a picture, or in rerun."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poli.cli.data_options import DatasetName, DatasetOptions, SensorName, SequenceName, TopicName, dataset_options
from poli.cli.model_options import ModelName
from poli.cli.output import say
from poli.cli.scan_files import check_place, is_pipe, naming

if TYPE_CHECKING:
    from poli.cli.view_subject import Subject


class Color(StrEnum):
    normal = "normal"
    planarity = "planarity"
    uncertainty = "uncertainty"
    height = "height"
    own = "own"


class Theme(StrEnum):
    dark = "dark"
    light = "light"


def view(
    data: Annotated[
        Path,
        typer.Argument(
            help="A scan, an ellipsoid file (.npz, .ply), a folder of scans, or a `poli odometry` result; -: standard input."
        ),
    ],
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
    sigma: Annotated[float, typer.Option(min=0.0, max=3.0, help="Size of the drawn ellipsoids, in standard deviations.")] = 2.0,
    color: Annotated[
        Color | None, typer.Option(help="Initial coloring of the page; default: normal, for maps of points height.")
    ] = None,
    theme: Annotated[Theme, typer.Option(help="Initial theme of the page.")] = Theme.dark,
    title: Annotated[str | None, typer.Option(help="Title of the page; default: the name of the data.")] = None,
    dataset: DatasetName = "auto",
    sequence: SequenceName = None,
    topic: TopicName = None,
    sensor: SensorName = None,
    option: DatasetOptions = None,
    scans: Annotated[
        int | None,
        typer.Option(min=1, help="Folders: maximum number of scans, evenly spaced; default: 4, with known poses 50, in rerun all."),
    ] = None,
) -> dict[str, Any]:
    """View scans, ellipsoids and odometry.

    Writes a self-contained HTML page that opens in any browser. The ellipsoids of
    scans are estimated first. Folders of scans are shown side by side, or fused
    into one world if their poses are known. For odometry, the page shows the map
    and the trajectory.

    Examples:
    poli view scan.pcd --open
    poli view scan.bin --compare --voxel 0.5 --out town.html
    poli view field.npz --color uncertainty --theme light
    poli view kitti --sequence 07 --scans 100
    poli view results/odometry/kitti_07/latest --out drive.rrd
    poli view part.ply --model objects --png part.png
    cat scan.pcd | poli view - --out scan.html
    """
    from poli.cli.view_subject import subject_of
    from poli.errors import FormatError, InputError
    from poli.show.estimated import Estimates

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

    for written in (page, png, recorded):
        if written is not None:
            check_place(written, data, Path(model))
    options = dataset_options(option or [], sequence, topic, sensor)
    subject = subject_of(data, dataset, options, Estimates(model, voxel, compare), scans, series=to_rerun)
    for line in subject.remarks:
        say(line)
    if page is not None:
        with naming(data):
            _write_page(page, subject, title, sigma, color, theme, browser)
    if png is not None:
        from poli.show.figure import write_png
        from poli.show.panel_picture import draw_panels

        write_png(png, draw_panels(subject.panels(), sigma))
        say(f"{png}: {_listed(subject)}")
    if to_rerun:
        from poli.show.rerun_recording import log_panels, log_series, recording

        with recording(recorded) as stream:
            if subject.series is None:
                log_panels(stream, subject.panels(), sigma)
            else:
                count = log_series(stream, subject.series(), subject.tracks, sigma)
        what = _listed(subject) if subject.series is None else f"{count} scans"
        say(f"{recorded or 'rerun'}: {what}")
    return {"name": subject.name, "about": subject.note, "page": page, "png": png, "recording": recorded}


def _write_page(
    page: Path, subject: "Subject", title: str | None, sigma: float, color: Color | None, theme: Theme, browser: bool
) -> None:
    from poli.show.page import write_page

    color = color or (Color.normal if subject.has_normals else Color.height)
    left_out = write_page(
        page, title or subject.name, subject.panels(), note=subject.note, sigma=sigma, color=color.value, theme=theme.value
    )
    for line in left_out:
        say(f"shown: {line}", to_stderr=True)
    say(f"{page}: {_listed(subject)}, {page.stat().st_size / 1e6:.1f} MB; open it in a browser")
    if browser:
        import webbrowser

        if not webbrowser.open(page.resolve().as_uri()):
            say("no browser found; open the page manually", to_stderr=True)


def _listed(subject: "Subject") -> str:
    names = [panel.name for panel in subject.panels()]
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

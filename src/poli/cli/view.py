"""`poli view`: show scans, ellipsoids and odometry as an interactive page, a picture, or in rerun."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from poli.cli.commands import Only
from poli.cli.inputs import AsRecorded, check_place, file_name, is_pipe, naming
from poli.cli.output import say
from poli.configs import EstimateConfig
from poli.errors import FormatError, InputError
from poli.options import option

if TYPE_CHECKING:
    from poli.cli.view_content import Subject
    from poli.viewer.panel import Panel

_DATA = "A scan, an ellipsoid file (.npz, .ply), a folder of scans, a bag or a `poli odometry` result; -: standard input."


def _colorings() -> list[str]:
    return ["normal", "planarity", "uncertainty", "height", "own", "layer", "intensity", "ring", "time"]


@dataclass(frozen=True)
class ViewOptions:
    """What to write, and how to show it."""

    out: Path | None = option(None, "Output .html page or .rrd recording; default: NAME.html in the current folder.")
    png: Path | None = option(None, "Render a picture to this .png file, without a browser.")
    rerun: bool = option(False, "Show it in the rerun viewer (extra `view`).")
    browser: bool = option(False, "Open the page in a browser.", flag="--open")
    voxel: float | None = option(
        None, "Scans: voxel size; 0: use every point; default: 0.5, for objects 0.", unit="meters", least=0.0
    )
    compare: bool = option(False, "Single scan: also show PCA, and the truth if simulated.")
    pose: Path | None = option(None, "With OTHER: text file of the 4x4 pose of DATA in OTHER's frame (`poli register --out`).")
    original: Path | None = option(None, "DATA was densified from this scan, its first points: show the samples in another color.")
    sigma: float = option(2.0, "Size of the drawn ellipsoids, in standard deviations.", least=0.0, most=3.0)
    color: str | None = option(
        None,
        "Initial coloring of the page: normal, planarity, uncertainty, height, own, layer, or a field such as intensity; "
        "default: normal, for maps of points height, for two clouds layer.",
        names=_colorings,
    )
    theme: Literal["dark", "light"] = option("dark", "Initial theme of the page.")
    scans: int | None = option(
        None,
        "Folders: scans of the timeline, evenly spaced; 0: none; default: 200; fused by known poses: 50; in rerun: all.",
        least=0,
    )
    side_by_side: bool = option(False, "Folders without poses: show scans (default: 4) in panels, without a timeline.")

    def check(self, data: Path, other: Path | None, model: str) -> None:
        """Reject options that contradict each other."""
        if self.out is not None and self.out.suffix.lower() not in (".html", ".htm", ".rrd"):
            raise FormatError(f"--out {self.out}: write a page as .html or a rerun recording as .rrd; use --png for pictures")
        if self.png is not None and self.png.suffix.lower() != ".png":
            raise FormatError(f"--png {self.png}: the name of a picture must end in .png")
        if self.browser and self.page(data) is None:
            raise InputError("--open: no page is written; remove it, or give --out NAME.html")
        if self.compare and model == "pca":
            raise InputError("--compare: compares a network with PCA; choose a network with --model, or remove --compare")
        if self.compare and (other is not None or self.original is not None):
            raise InputError("--compare: only one scan can be compared; remove it, or give one scan")
        if self.pose is not None and other is None:
            raise InputError(f"--pose {self.pose}: is the pose between two scans; give the second one, too")
        if self.original is not None and other is not None:
            raise InputError(f"--original {self.original}: cannot be combined with a second scan; remove one of the two")

    @property
    def recording(self) -> Path | None:
        """The rerun recording to write."""
        return self.out if self.out is not None and self.out.suffix.lower() == ".rrd" else None

    def page(self, data: Path) -> Path | None:
        """The page to write; by default, if nothing else is asked for, NAME.html in the current folder."""
        if self.out is not None or self.png is not None or self.rerun:
            return None if self.recording else self.out
        name = "scan" if is_pipe(data) else data.resolve().stem if data.is_file() else data.resolve().name
        page = Path(f"{file_name(name)}.html")
        if page.is_file():
            with page.open("rb") as file:
                if b'name="generator" content="poli"' not in file.read(2000):
                    raise FormatError(f"{page}: already exists and was not written by poli view; choose another name with --out")
        return page


def view(
    data: Annotated[Path, typer.Argument(metavar="DATA", help=_DATA)],
    other: Annotated[Path | None, typer.Argument(metavar="OTHER", help="A second scan, to show both in one frame.")] = None,
    *,
    options: ViewOptions,
    config: Annotated[EstimateConfig, Only("model")],
    source: AsRecorded,
) -> dict[str, Any]:
    """View scans, ellipsoids and odometry.

    Writes a self-contained HTML page that opens in any browser. The ellipsoids of
    scans are estimated first. Folders, bags and odometry runs have a timeline; if
    the poses are known, also the scans fused into one world, or the map, and the
    trajectory. Click a point to read its numbers. Clouds in map coordinates, such
    as UTM, are centered, and the offset is printed.

    Examples:
    poli view scan.pcd --compare --open
    poli view field.npz --color uncertainty --theme light
    poli view source.pcd target.pcd --pose pose.txt
    poli view dense.pcd --original raw.pcd
    poli view results/odometry/kitti_07/latest --out drive.rrd
    poli view part.ply --model objects --png part.png
    cat scan.pcd | poli view - --out scan.html
    """
    from poli.cli.view_content import densified_subject, overlay_subject, subject_of
    from poli.viewer.content import Estimates

    options.check(data, other, config.model)
    page, png, recording = options.page(data), options.png, options.recording
    inputs = [path for path in (data, other, options.pose, options.original, Path(config.model)) if path is not None]
    for written in (page, png, recording):
        if written is not None:
            check_place(written, *inputs)
    how = Estimates(config.model, options.voxel, options.compare)
    if other is not None:
        subject = overlay_subject(data, other, options.pose, how)
    elif options.original is not None:
        subject = densified_subject(data, options.original)
    else:
        subject = subject_of(data, source.dataset, source.given, how, options.scans, options.side_by_side)
    for line in subject.remarks:
        say(line)
    if page is not None:
        with naming(data):
            _write_page(page, subject, options)
    if png is not None:
        from poli.viewer.picture import draw_panels, write_png

        write_png(png, draw_panels(subject.stills, options.sigma))
        say(f"{png}: {_listed(subject.stills)}")
    if options.rerun or recording is not None:
        from poli.viewer.rerun_recording import record

        count = record(recording, subject.moments(), subject.tracks, lambda: subject.stills, options.sigma)
        say(f"{recording or 'rerun'}: {f'{count} scans' if count else _listed(subject.stills)}")
    return {"name": subject.name, "about": subject.note, "page": page, "png": png, "recording": recording}


def _write_page(page: Path, subject: "Subject", options: ViewOptions) -> None:
    from poli.viewer.page import write_page

    panels, color = subject.panels(), options.color or subject.color
    left_out = write_page(page, subject.name, panels, note=subject.note, sigma=options.sigma, color=color, theme=options.theme)
    for line in left_out:
        say(f"shown: {line}", to_stderr=True)
    for panel in panels:
        if panel.frames:
            say(f"{panel.name}: {panel.caption}")
    say(f"{page}: {_listed(panels)}, {page.stat().st_size / 1e6:.1f} MB; open it in a browser")
    if options.browser:
        import webbrowser

        if not webbrowser.open(page.resolve().as_uri()):
            say("no browser found; open the page manually", to_stderr=True)


def _listed(panels: "Sequence[Panel]") -> str:
    return " and ".join(", ".join(panel.name for panel in panels).rsplit(", ", 1))

"""Simulated drives: `poli simulate` writes one as a dataset; `poli demo` shows every step of the library on one."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from poli.cli.inputs import counted
from poli.cli.output import busy, say, track
from poli.errors import FormatError
from poli.options import option

if TYPE_CHECKING:
    from poli.scan import Scan
    from poli.worlds.drive import Drive

PLACE, SEED, SENSOR = "town", 2_000_003, "vlp16"  # seeds from two million on are reserved for evaluation
_START = 180.0  # meters along the route; then it turns left around a corner
_SCANS = 40
_OTHER = 12  # the scan that is registered to the first one, some ten meters later
_TURN = 140.0  # degrees about the vertical, so that its heading is unknown

_BLUE, _ORANGE = (0.0, 0.447, 0.698), (0.902, 0.624, 0.0)


def place_names() -> list[str]:
    """The known kinds of places."""
    from poli.worlds.places import PLACES

    return list(PLACES)


def sensor_names() -> list[str]:
    """The known sensors."""
    from poli.worlds import SENSORS

    return list(SENSORS)


@dataclass(frozen=True)
class SimulateOptions:
    """The world, the sensor and its ride."""

    place: str = option("town", "Kind of place: town, campus, bridge, ...; an unknown name lists all.", names=place_names)
    seed: int = option(0, "Seed of the world; from 2,000,000 on: reserved for evaluation, never trained on.", least=0)
    sensor: str = option(
        "vlp16", "Sensor: vlp16, mid360, ..., or a text file of beam elevations; an unknown name lists all.", names=sensor_names
    )
    scans: int = option(50, "Number of scans (revolutions of the sensor).", least=1)
    speed: float | None = option(None, "Speed in meters per second; default: 8, in rooms 1.")
    height: float | None = option(None, "Height of the sensor above the ground, in meters; default: 1.8, in rooms 1.3.")
    layout: Literal["poli", "kitti"] = option("poli", "Format: poli (with true normals and labels) or kitti (as KITTI odometry).")
    skewed: bool = option(False, "Keep the motion within each scan in its points.")
    movers: bool = option(True, "Add moving cars.")
    rotation_noise: float = option(0.1, "Noise of the measured poses, in degrees per axis.")
    translation_noise: float = option(0.02, "Noise of the measured poses, in meters per axis.")


def simulate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output folder; must not exist yet.")],
    options: SimulateOptions,
) -> dict[str, Any]:
    """Simulate a drive and write its scans, true poses, and measured poses.

    Examples:
    poli simulate drive --place riverside --seed 7 --sensor os2_128
    poli simulate drive --scans 100 --layout kitti
    poli simulate drive --sensor my_beams.txt --skewed
    """
    from poli.io.atomic import check_new_folder
    from poli.io.datasets import write_folder, write_kitti
    from poli.worlds import World, find_sensor, usual_ride
    from poli.worlds.drive import Drive
    from poli.worlds.places import make_place

    place, seed, sensor, scans, noise = options.place, options.seed, options.sensor, options.scans, options.rotation_noise
    if options.layout == "poli":
        check_new_folder(out)
    elif (out / "sequences").is_dir():  # KITTI layout, may hold other sequences
        check_new_folder(out / "sequences" / "00")
    if (out / "poses" / "00.txt").exists():
        raise FormatError(f"{out / 'poses' / '00.txt'}: already exists; remove it first, or give another name")
    ride = replace(
        usual_ride(place), **{name: value for name in ("speed", "height") if (value := getattr(options, name)) is not None}
    )
    world, table = World(make_place(place, seed)), find_sensor(sensor)
    drive = Drive(world, table, ride, scans, seed, not options.skewed, options.movers, noise, options.translation_noise)
    sweeps = track(drive, "scanning", scans)
    if options.layout == "kitti":
        write_kitti(out, "00", sweeps, drive.poses)
    else:
        about = {"place": place, "seed": seed, "sensor": Path(sensor).name, "speed": ride.speed, "height": ride.height}
        about |= {"deskewed": not options.skewed, "rotation_noise_deg": noise, "translation_noise_m": options.translation_noise}
        write_folder(out, f"{place} {seed}", sweeps, drive.poses, drive.measured, about)
    say(f"{out}: {counted(scans, 'scan')}; next: poli odometry {shlex.quote(str(out))}")
    return {"out": out, "scans": scans, "layout": options.layout, "place": place, "seed": seed, "sensor": sensor}


# --- The demo.


def demo(
    out: Annotated[Path, typer.Option(help="Output folder; created if needed.")] = Path("demo_output"),
) -> dict[str, Any]:
    """Run the whole demo on a simulated town: ellipsoids, densification, registration, and forty scans of odometry.

    Compares the results with the ground truth and with PCA, and writes an HTML page,
    pictures and point clouds. Takes about 10 seconds, and a minute more the first
    time, since numba compiles the kernels.

    Examples:
    poli demo
    poli demo --out pictures
    """
    import poli
    from poli.worlds import SENSORS, Ride, World
    from poli.worlds.drive import Drive
    from poli.worlds.places import make_place

    if out.exists() and not out.is_dir():
        raise FormatError(f"{out}: this is not a folder; give another folder")
    out.mkdir(parents=True, exist_ok=True)
    with busy("simulating a drive"):
        drive = Drive(World(make_place(PLACE, SEED)), SENSORS[SENSOR], Ride(start=_START), _SCANS)
        simulated = list(drive)
        scans = [scan.keep("ring", "intensity") for scan in simulated]
        poli.write(scans[0], out / "scan.ply")
    say("A VLP-16 in a simulated town that was not used for training, against the truth:")
    _row("", "POLI", "PCA")
    found = {
        "normals": _show_ellipsoids(simulated[0], out),
        "density": _show_densified(scans[0], drive, out),
        "pair": _show_registered(scans[_OTHER], scans[0], drive, out),
        "drive": _show_odometry(scans, drive, out),
    }
    say(f"Open in a browser: {out / 'index.html'} (points, PCA, POLI and the truth in 3D)")
    say(f"Pictures and clouds: {', '.join(sorted(path.name for path in out.glob('*.p*')))}")
    for command in next_commands(out):
        say(f"Next: {command}")
    return {"out": out, "place": PLACE, "seed": SEED, "sensor": SENSOR, **found}


def next_commands(out: Path) -> list[str]:
    """Commands to try next, the first two with files of the demo."""
    scan, turned, dense = (shlex.quote(str(out / name)) for name in ("scan.ply", "scan_turned.ply", "densified.ply"))
    return [
        f"poli view {scan} --compare --open",
        f"poli register {turned} {scan} --preset {SENSOR}",
        f"poli view {dense} --original {scan} --open",
        "poli simulate drive --place riverside && poli odometry drive",
    ]


def _show_ellipsoids(scan: "Scan", out: Path) -> dict[str, Any]:
    """Ellipsoids by POLI and by PCA, with the true normals."""
    from poli.viewer import Camera, draw_panels, write_page, write_png
    from poli.viewer.content import Estimates, normal_errors, scan_panels

    with busy("ellipsoids"):
        panels = scan_panels(scan, Estimates(compare=True))
        note = "A VLP-16 scan of a simulated town not used for training. PCA's ellipsoids are drawn smaller, at POLI's size."
        camera = Camera((-23.0, -2.0, 14.0), (8.0, 0.0, 1.5), field_of_view=64.0)  # from behind and above the sensor
        write_page(out / "index.html", "A scan as ellipsoids", panels, note=note, camera=camera)
        write_png(out / "ellipsoids.png", draw_panels(panels, camera=camera))
    _, rival, poli, truth = panels
    assert poli.field is not None
    assert rival.field is not None
    assert truth.normals is not None
    medians = [float(np.median(normal_errors(field, truth.normals))) for field in (poli.field, rival.field)]
    _row(f"Ellipsoids of {len(poli.field):,} points: median normal error", *(f"{median:.1f}°" for median in medians))
    return {"points": len(poli.field), "median": medians[0], "pca_median": medians[1]}


def _show_densified(scan: "Scan", drive: "Drive", out: Path) -> dict[str, Any]:
    """A denser scan, with the distance of its points to the surfaces of the town."""
    import poli

    with busy("a denser scan"):
        dense = poli.densify(scan)
        poli.write(dense, out / "densified.ply")
        off = drive.world.distance(dense.transform(drive.poses[0]).points)
        count = len(scan)
    medians = {"returns": float(np.median(off[:count])), "samples": float(np.median(off[count:]))}
    _row(f"Densified by {len(dense) - count:,} points: distance to surface", _length(medians["samples"]))
    return {"returns": count, "samples": len(dense) - count, "median_distance": medians}


def _show_registered(other: "Scan", target: "Scan", drive: "Drive", out: Path) -> dict[str, Any]:
    """The pose between two scans, without an initial guess."""
    import poli
    from poli.se3 import exp, inverse, log

    with busy("the pose between two scans"):
        turn = exp(np.array([0.0, 0.0, np.deg2rad(_TURN), 0.0, 0.0, 0.0]))
        source = other.transform(turn)
        poli.write(source, out / "scan_turned.ply")
        T_true = inverse(drive.poses[0]) @ drive.poses[_OTHER] @ inverse(turn)
        result = poli.register(source, target, preset=SENSOR)
        error = log(inverse(T_true) @ result.T_target_source)
        rotation, translation = float(np.degrees(np.linalg.norm(error[:3]))), float(np.linalg.norm(error[3:]))
    apart = float(np.linalg.norm(T_true[:3, 3]))
    _row(f"Registered, {apart:.0f} m apart and turned by {_TURN:g}°: rotation error", f"{rotation:.2f}°")
    _row(f"  {'certified optimal' if result.certified else 'NOT certified'}: translation error", _length(translation))
    return {"apart": apart, "rotation": rotation, "translation": translation, "certified": result.certified}


def _show_odometry(scans: "list[Scan]", drive: "Drive", out: Path) -> dict[str, Any]:
    """The poses of the drive and its map."""
    import poli
    from poli.se3 import inverse
    from poli.viewer import Camera, Panel, Track, draw_panels, write_png

    with busy("odometry"):
        truth = inverse(drive.poses[0]) @ drive.poses
        odometer = poli.Odometer()
        for scan in scans:
            odometer.add(scan)
        rival = poli.odometry(scans, model="pca")
        ends = [float(np.linalg.norm(poses[-1, :3, 3] - truth[-1, :3, 3])) for poses in (odometer.poses, rival)]
        path = float(np.linalg.norm(np.diff(truth[:, :3, 3], axis=0), axis=1).sum())
        assert odometer.map is not None
        tracks = (Track(truth[:, :3, 3], "truth", _ORANGE), Track(odometer.poses[:, :3, 3], "POLI", _BLUE))
        map_panel = Panel("Odometry", field=odometer.map.field, tracks=tracks, caption="the map of ellipsoids and the path")
        middle = truth[:, :3, 3].mean(axis=0)
        above = Camera(tuple(middle + [-30.0, 4.0, 48.0]), tuple(middle + [3.0, 0.0, -2.0]), field_of_view=62.0)
        write_png(out / "trajectory.png", draw_panels([map_panel], camera=above))
    _row(f"Odometry, {len(scans)} scans and {path:.0f} m: error at the end", *map(_length, ends))
    return {"scans": len(scans), "path": path, "end": ends[0], "pca_end": ends[1]}


def _length(meters: float) -> str:
    return f"{100.0 * meters:.1f} cm" if meters >= 0.01 else f"{1000.0 * meters:.1f} mm"


def _row(what: str, poli: str, pca: str = "") -> None:
    say(f"{what:<58}{poli:>9}{pca:>9}".rstrip())

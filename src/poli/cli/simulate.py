"""`poli simulate`: simulate a drive and write it as a dataset."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from poli.cli.output import say, track
from poli.cli.scan_files import counted
from poli.errors import FormatError
from poli.options import option


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

"""`poli simulate`: simulate a drive and write it as a dataset."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from poli.cli.output import say, track
from poli.cli.scan_files import counted
from poli.errors import FormatError


def place_names() -> list[str]:
    """The known kinds of places."""
    from poli.worlds.places import PLACES

    return list(PLACES)


def sensor_names() -> list[str]:
    """The known sensors."""
    from poli.worlds import SENSORS

    return list(SENSORS)


def simulate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output folder; must not exist yet.")],
    place: Annotated[
        str,
        typer.Option(
            help="Kind of place: town, campus, apartments, bridge, ...; an unknown name lists all.", autocompletion=place_names
        ),
    ] = "town",
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the world; from 2,000,000 on: reserved for evaluation, never trained on.")
    ] = 0,
    sensor: Annotated[
        str,
        typer.Option(
            help="Sensor: vlp16, hdl64e, mid360, e1r, ..., or a text file of beam elevations; an unknown name lists all.",
            autocompletion=sensor_names,
        ),
    ] = "vlp16",
    scans: Annotated[int, typer.Option(min=1, help="Number of scans (revolutions of the sensor).")] = 50,
    speed: Annotated[float | None, typer.Option(help="Speed in meters per second; default: 8, in rooms 1.")] = None,
    height: Annotated[
        float | None, typer.Option(help="Height of the sensor above the ground, in meters; default: 1.8, in rooms 1.3.")
    ] = None,
    layout: Annotated[
        Literal["poli", "kitti"],
        typer.Option(help="Format: poli (with true normals and labels) or kitti (as KITTI odometry)."),
    ] = "poli",
    skewed: Annotated[bool, typer.Option("--skewed", help="Keep the motion within each scan in its points.")] = False,
    movers: Annotated[bool, typer.Option(help="Add moving cars.")] = True,
    rotation_noise: Annotated[float, typer.Option(help="Noise of the measured poses, in degrees per axis.")] = 0.1,
    translation_noise: Annotated[float, typer.Option(help="Noise of the measured poses, in meters per axis.")] = 0.02,
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

    if layout == "poli":
        check_new_folder(out)
    elif (out / "sequences").is_dir():  # KITTI layout, may hold other sequences
        check_new_folder(out / "sequences" / "00")
    if (out / "poses" / "00.txt").exists():
        raise FormatError(f"{out / 'poses' / '00.txt'}: already exists; remove it first, or give another name")
    usual = usual_ride(place)
    ride = replace(usual, speed=usual.speed if speed is None else speed, height=usual.height if height is None else height)
    table = find_sensor(sensor)
    world = World(make_place(place, seed))
    drive = Drive(world, table, ride, scans, seed, not skewed, movers, rotation_noise, translation_noise)
    sweeps = track(drive, "scanning", scans)
    if layout == "kitti":
        write_kitti(out, "00", sweeps, drive.poses)
    else:
        about = {"place": place, "seed": seed, "sensor": Path(sensor).name, "speed": ride.speed, "height": ride.height}
        about |= {"deskewed": not skewed, "rotation_noise_deg": rotation_noise, "translation_noise_m": translation_noise}
        write_folder(out, f"{place} {seed}", sweeps, drive.poses, drive.measured, about)
    say(f"{out}: {counted(scans, 'scan')}; next: poli odometry {shlex.quote(str(out))}")
    return {"out": out, "scans": scans, "layout": layout, "place": place, "seed": seed, "sensor": sensor}

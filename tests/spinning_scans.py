"""Scans of a spinning sensor in analytic scenes, for the tests of samples between rings."""

import numpy as np

from poli.scan import Scan

ELEVATIONS = np.arange(-15.0, 16.0, 2.0)  # degrees, of a VLP-16
PERIOD = 0.1  # seconds
HEIGHT, WALL = 1.7, 20.0  # meters


def rays(elevations=ELEVATIONS, step=0.4):
    """Directions (N, 3) by azimuth, then ring, with rings from the bottom and times of a sensor that turns counterclockwise."""
    azimuths = np.arange(-180.0 + step / 2, 180.0, step)
    azimuth, ring = (a.reshape(-1) for a in np.meshgrid(azimuths, np.arange(len(elevations)), indexing="ij"))
    up, around = np.radians(np.asarray(elevations)[ring]), np.radians(azimuth)
    directions = np.stack([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)], axis=1)
    return directions, ring, PERIOD * (azimuth + 180.0) / 360.0


def yard(noise=0.005, elevations=ELEVATIONS, step=0.4, seed=0, box=False):
    """The ground and four walls; with `box`, a box stands 4 to 5 m in front of the sensor."""
    directions, ring, time = rays(elevations, step)
    with np.errstate(divide="ignore"):
        down = np.where(directions[:, 2] < 0.0, -HEIGHT / directions[:, 2], np.inf)
        wall = WALL / np.abs(directions[:, :2]).max(axis=1)
        ranges = np.minimum(down, wall)
        if box:
            front = np.where(directions[:, 0] > 0.0, 4.0 / directions[:, 0], np.inf)
            hit = front[:, None] * directions
            inside = np.isfinite(front) & (np.abs(hit[:, 1]) < 1.0) & (hit[:, 2] < 0.5)
            ranges = np.where(inside, np.minimum(ranges, front), ranges)
    return spinning_scan(directions, ranges, ring, time, noise, seed)


def ball(radius=25.0, noise=0.0):
    """The inside of a sphere around a place 3 m below the sensor."""
    directions, ring, time = rays()
    along = 3.0 * directions[:, 2]
    return spinning_scan(directions, -along + np.sqrt(along**2 + radius**2 - 9.0), ring, time, noise)


def spinning_scan(directions, ranges, ring, time, noise, seed=0):
    ranges = ranges + noise * np.random.default_rng(seed).standard_normal(len(ranges))
    fields = {"ring": ring.astype(np.uint8), "time": time, "intensity": np.arange(len(ring)).astype(np.float32)}
    return Scan((ranges[:, None] * directions).astype(np.float32), fields, stamp=5)


def distance_to_yard(points):
    """Distance to the ground or the nearest wall."""
    return np.minimum(np.abs(points[:, 2] + HEIGHT), np.abs(np.abs(points[:, :2]).max(axis=1) - WALL))

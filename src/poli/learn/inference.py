"""`poli.estimate` by the reference network, on any device that torch knows: for whoever has a GPU."""

from __future__ import annotations

import os

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError, MissingExtra
from poli.estimation.density import median_spacing, warn_of_density
from poli.estimation.grouping import group
from poli.estimation.inference import UP, load_model, sight_of
from poli.estimation.standpoint import warn_of_distance
from poli.learn.groups import GroupBatch
from poli.learn.trained import network_of
from poli.scan import ScanLike, points_of

try:
    import torch
except ImportError:
    raise MissingExtra("poli.learn", "train") from None


def estimate(
    scan: ScanLike,  # (N, 3), N >= 16
    model: str | os.PathLike[str] = "lidar",
    viewpoint: np.ndarray | None = None,  # (3,) or (N, 3); the origin if not given
    up: np.ndarray | None = UP,  # (3,)
    merged: bool = False,
    device: str | torch.device = "cpu",
    warn: bool = True,
) -> Ellipsoids:
    """What `poli.estimate` gives. Neighbours are found on the CPU; the network and the axes run on `device`, whose memory has to
    hold the whole cloud: some 12 kB a point."""
    place = _device(device)
    points = points_of(scan).copy()
    trained = load_model(model)
    sight = sight_of(viewpoint, up, merged, len(points))
    grouping = group(points, trained.architecture, sight)
    with torch.no_grad():
        L, frames = network_of(trained).to(place).sized(GroupBatch.of([grouping]).to(place))
        factor = trained.calibration * (frames.double() @ L.double())
        covariances = (factor @ factor.transpose(1, 2)).cpu().numpy()
    if warn:
        warn_of_distance(trained, points, sight)
        warn_of_density(trained, len(points), median_spacing(grouping.levels[0].radius, grouping.levels[0].size))
    return Ellipsoids.trusted(points, covariances, viewpoint)


def _device(device: str | torch.device) -> torch.device:
    """This device, if one can compute on it in double precision, which the axes need."""
    try:
        place = torch.device(device)
        torch.ones(1, dtype=torch.float64, device=place).item()
    except (RuntimeError, AssertionError, TypeError, NotImplementedError):  # torch has many ways to say no
        known = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise InputError(f"device is {str(device)!r}, and torch cannot compute there; available: {', '.join(known)}") from None
    return place

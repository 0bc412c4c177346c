"""`poli.estimate` with the reference network in torch, on any device, such as a GPU."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.estimation.architecture import FLATTEST, HORIZON, THINNEST, UP, checked_motion, motion_inputs
from poli.estimation.estimate import load_model, median_spacing, view_of, warn_of_density, warn_of_distance
from poli.estimation.ordered_cloud import check_places, distinct, seen_from
from poli.estimation.pointnet2 import PointNet2
from poli.kdtree.tree import NARROWEST, check_range
from poli.scan import ScanLike, points_of
from poli.train.grouping import GroupBatch
from poli.train.model_file import network_of
from poli.train.network_input import Grouping, group


def estimate(
    scan: ScanLike,  # (N, 3), N >= 16
    model: str | os.PathLike[str] = "lidar",
    viewpoint: np.ndarray | None = None,  # (3,) or (N, 3); the origin if not given
    up: np.ndarray | None = UP,  # (3,)
    merged: bool = False,
    device: str | torch.device = "cpu",
    warn: bool = True,
    motion: float | None = None,
) -> Ellipsoids:
    """Return the same as `poli.estimate`, computed on `device`.

    Neighbors are found on the CPU; the network and the axes run on `device`, whose memory must hold the whole cloud: about 12 kB
    per point."""
    place = _device(device)
    points = points_of(scan).copy()
    view = view_of(viewpoint, up, merged, len(points))
    distance = checked_motion(motion)
    trained = load_model(model)
    trained.at_motion(distance)  # refuses a motion that the model has no input for
    check_range(points, narrowest=NARROWEST)
    places = distinct(points, ordered=not trained.architecture.sensor)
    check_places(points, places, trained.architecture)
    network: Any = network_of(trained).to(place)
    if isinstance(trained.architecture, PointNet2):
        covariances = network.covariances(points, view.position)
        return Ellipsoids.trusted(points, covariances, viewpoint)
    at = places.of_places(points)
    grouping = group(at, trained.architecture, seen_from(view, places))
    assert isinstance(grouping, Grouping)
    most = np.minimum(HORIZON * grouping.levels[0].radius, np.linalg.norm(np.ptp(at, axis=0)))
    with torch.no_grad():
        # Multiply by spacings in float64: in some units they are not representable in float32.
        motions = None if distance is None else [motion_inputs(distance)]
        batch = GroupBatch.of([replace(grouping, spacing=np.ones(len(at)))], motions).to(place)
        L, frames = network.sized(batch)
        spacing, bound = torch.from_numpy(trained.calibration * grouping.spacing).to(place), torch.from_numpy(most).to(place)
        factor = frames.double() * _sound(torch.diagonal(L, dim1=1, dim2=2).double() * spacing[:, None], bound)[:, None]
        covariances = places.of_points((factor @ factor.transpose(1, 2)).cpu().numpy())
    if warn:
        warn_of_distance(trained, points, view)
        warn_of_density(trained, len(points), median_spacing(grouping.spacing))
    return Ellipsoids.trusted(points, covariances, viewpoint)


def _sound(scales: torch.Tensor, most: torch.Tensor) -> torch.Tensor:  # (N, 3), (N,) -> (N, 3)
    """Clip scales so that no ellipsoid is larger than its neighborhood or flat, as in the runtime (`estimation.runtime.scale`)."""
    largest = torch.minimum(scales[:, 1:].amax(dim=1), most)
    wide = torch.maximum(torch.minimum(scales[:, 1:], largest[:, None]), math.sqrt(2.0 * FLATTEST) * largest[:, None])
    thin = torch.minimum(scales[:, 0], math.sqrt(THINNEST) * wide.amin(dim=1))
    return torch.cat([torch.maximum(thin, math.sqrt(FLATTEST) * largest)[:, None], wide], dim=1)


def _device(device: str | torch.device) -> torch.device:
    """Return this device, after checking that torch can compute on it in double precision, which the axes need."""
    try:
        place = torch.device(device)
        torch.ones(1, dtype=torch.float64, device=place).item()
    except (RuntimeError, AssertionError, TypeError, NotImplementedError):  # torch raises any of these
        known = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise InputError(f"device is {str(device)!r}, but torch cannot compute on it; available: {', '.join(known)}") from None
    return place

"""`poli.estimate`: ellipsoids from points, by a trained network or by PCA."""

from __future__ import annotations

import os
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.ellipsoids.second_order import SecondOrder
from poli.errors import InputError, did_you_mean
from poli.estimation.arrangement import Viewpoint
from poli.estimation.input_checks import median_spacing, warn_of_density, warn_of_distance
from poli.estimation.model import Model, read_model
from poli.estimation.motion import UP, checked_motion
from poli.estimation.pca import NEIGHBORS, pca
from poli.kdtree.tree import check_range
from poli.scan import ScanLike, points_of
from poli.validation import real_array

_SHIPPED = Path(__file__).parent / "models"
PCA = "pca"  # the model name that selects PCA instead of a network


def estimate(
    scan: ScanLike,  # (N, 3); networks: N >= 16
    model: str | os.PathLike[str] = "lidar",
    viewpoint: np.ndarray | None = None,  # (3,) or (N, 3); the origin if not given
    up: np.ndarray | None = UP,  # (3,)
    merged: bool = False,
    warn: bool = True,
    *,
    k: int | None = None,
    radius: float | None = None,
    motion: float | None = None,
    curvature: bool = True,
) -> Ellipsoids:
    """Estimate an ellipsoid for every point, with a network trained on pairs of clouds of the same surface.

    `model` is the name of a shipped model (`poli models` lists them) or the path of a `model.safetensors` written by
    `poli train`. Covariances are calibrated: matched points of two clouds of the same density differ by N(0, 2 C).

    Models for scans use the sensor position and the up direction. The defaults are the origin and the z axis, as in the frame of an
    upright sensor. Pass `up=None` if up is unknown, and `merged=True` for points that were seen from several positions.

    `motion` is the distance in meters between the scans that the sizes are for. It changes the sizes of the ellipsoids, not their
    directions. By default it is unknown, and the sizes are those of an average over standing, walking and driving.

    If the model knows curvature, so does the field (`field.curvatures`), unless `curvature=False`, which saves a little time.

    `model="pca"` calls `poli.pca` with `k` neighbors (default 24) or all neighbors within `radius` meters; it does not use the
    sensor position. Networks accept neither `k` nor `radius`.

    Unless `warn=False`, clouds that are denser or sparser than the training data (in other units, for instance) issue a
    `DensityWarning`, and points too far from the viewpoint to be seen from there issue a `ViewpointWarning`.
    """
    if model == PCA:
        if motion is not None:
            raise InputError("{argument} is given, but PCA has no use for it", argument="motion", remedy="leave it out")
        return pca(scan, NEIGHBORS if k is None else k, radius, viewpoint=viewpoint)
    for name, value in (("k", k), ("radius", radius)):
        if value is not None:
            problem = f"{{argument}} is {value!r}, but only PCA takes it and the model is {os.fspath(model)!r}"
            raise InputError(problem, argument=name, remedy="leave it out, or choose the model pca")
    points = points_of(scan).copy()
    view = view_of(viewpoint, up, merged, len(points))
    network = load_model(model)
    distance = checked_motion(motion)
    found = network.estimate(points, view, curvature and network.architecture.curvature > 0, distance)
    if warn:
        warn_of_distance(network, points, view)
        warn_of_density(network, len(points), median_spacing(found.spacing))
    field = Ellipsoids.trusted(points, found.covariances, viewpoint)
    if found.quadrics is None:
        return field
    return Ellipsoids.trusted(points, found.covariances, viewpoint, SecondOrder.of_fit(found.quadrics, points, field.viewpoint))


def view_of(viewpoint: np.ndarray | None, up: np.ndarray | None, merged: bool, count: int) -> Viewpoint:
    """Validate `viewpoint`, `up` and `merged` of `estimate` for a scan of `count` points."""
    direction = None
    if up is not None:
        direction = real_array(up, "up")
        length = np.linalg.norm(direction)
        if direction.shape != (3,) or not 0.0 < length < np.inf:
            raise InputError(f"up is {up!r}; expected a direction of three numbers, or None if unknown")
        direction = direction / length
    if merged:
        return Viewpoint(None, direction)
    place = np.zeros(3) if viewpoint is None else real_array(viewpoint, "viewpoint")
    if place.shape not in ((3,), (count, 3)) or not np.isfinite(place).all():
        raise InputError(f"viewpoint has shape {place.shape}; expected finite numbers of shape (3,) or ({count}, 3)")
    check_range(place.reshape(-1, 3), "viewpoint")
    return Viewpoint(place, direction)


def load_model(model: str | os.PathLike[str]) -> Model:
    """Load a shipped model by name, or any model by path. Models are cached in memory."""
    path = shipped_file(model, ".safetensors") if isinstance(model, str) and model in shipped_models() else Path(model)
    if path.suffix != ".safetensors":
        known, hint = ", ".join(shipped_models()), did_you_mean(model, shipped_models())
        raise InputError(f"model is {str(model)!r}; expected one of {known}, or the path of a .safetensors file{hint}")
    return _cached(str(path), path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=8)
def _cached(path: str, _changed: int) -> Model:
    return read_model(path)


@cache
def shipped_models() -> tuple[str, ...]:
    """Return the names of the shipped models."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.safetensors")))


def model_card(name: str) -> str:
    """Return the card of a shipped model, in Markdown: data, training, calibration, results, license."""
    return shipped_file(name, ".md").read_text(encoding="utf-8")


def shipped_file(name: str, ending: str) -> Path:
    """Return the path of a file of a shipped model: weights (.safetensors), card (.md), or results and license (.toml)."""
    if name not in shipped_models():
        hint = did_you_mean(name, shipped_models())
        raise InputError(f"no shipped model {name!r}; expected one of {', '.join(shipped_models())}{hint}")
    return _SHIPPED / f"{name}{ending}"

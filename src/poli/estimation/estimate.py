"""`poli.estimate`: ellipsoids from points, by a trained network or by PCA."""

from __future__ import annotations

import os
import tomllib
import warnings
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.ellipsoids.curvature import SecondOrder
from poli.errors import DensityWarning, InputError, ViewpointWarning, did_you_mean
from poli.estimation.architecture import UP, checked_motion
from poli.estimation.frames import spacing_per_radius
from poli.estimation.model import Model, read_model
from poli.estimation.ordered_cloud import Viewpoint
from poli.estimation.pca import NEIGHBORS, pca
from poli.kdtree.tree import KDTree, check_range
from poli.options import real_array
from poli.scan import ScanLike, points_of

# --- Warn if a cloud is denser or sparser than those a model was trained on.
#
# Measured in simulated worlds that no model was trained on (`lidar`, `objects`), against the best PCA on the same points:
#
# - `lidar` on scans in meters, by the median distance between points: at 0.07 m (raw scans of 64 beams outdoors) the RMSE of the
#   normals is 7 % below that of PCA, at 0.046 m (raw, indoors) 4 % above. Errors double from voxels of 2 to 4 m, and from 6 m on
#   the likelihood of VLP-16 scans is worse than that of PCA.
# - `lidar` on scans in centimeters or millimeters: the RMSE is up to three times that of PCA.
# - `objects`, which does not use absolute size, stays below PCA, and calibrated, from 16 to 64,000 points.
# - Sixteen points cut out of a scan have up to 17 % more RMSE than in the whole scan; 64 have 2 to 3 % more.


FEWEST = 64  # points: fewer say little about their surroundings
# Accepted spacing in terms of the training voxels: a quarter of the smallest to two and a half times the largest.
_DENSER, _SPARSER = 0.25, 2.5
_SAMPLED = 512  # points that the median is computed from
_NEIGHBORS = 17  # per point, itself included, when the network has not computed the spacing
_MILLIMETERS = 1000.0
_REACH = 5000.0  # meters: no LiDAR on the ground sees this far
_APART = 4.0  # times the spread of the points: farther away, the sensor was not among them, whatever the unit


def trained_voxels(model: Model) -> tuple[float, float] | None:
    """Return the smallest and largest voxels of a model's training data in meters, or None if unknown or without effect."""
    scans = model.training.get("scans")
    voxels = scans.get("voxels") if isinstance(scans, dict) else None
    known = isinstance(voxels, list) and voxels and all(isinstance(v, int | float) and v > 0 for v in voxels)
    return (float(min(voxels)), float(max(voxels))) if known and voxels and model.architecture.log_scale else None


def median_spacing(spacing: np.ndarray) -> float:  # (N,)
    """Return the median, computed from a sample of the points."""
    some = spacing[:: max(1, len(spacing) // _SAMPLED)]
    return float(np.partition(some, len(some) // 2)[len(some) // 2])


def complaint_of(model: Model, points: np.ndarray) -> str | None:  # (N, 3), N >= 16
    """Return what is wrong with the density of the points, or None; for callers that do not compute ellipsoids."""
    k = min(_NEIGHBORS, len(points))
    distances = KDTree(points).nearest(k)[0][:, 1:]  # (N, k - 1), without the point itself
    spacing = spacing_per_radius(k - 1) * np.sqrt((distances**2).mean(axis=1))
    return _complaint(model, len(points), median_spacing(spacing))


def warn_of_density(model: Model, count: int, spacing: float, stacklevel: int = 3) -> None:
    """Issue a `DensityWarning`, at the caller's caller, if `count` points `spacing` meters apart are outside a model's range."""
    found = _complaint(model, count, spacing)
    if found is not None:
        warnings.warn(found, DensityWarning, stacklevel=stacklevel)


def _complaint(model: Model, count: int, spacing: float) -> str | None:
    voxels = trained_voxels(model)
    if voxels is not None:
        (fine, coarse), low, high = voxels, _DENSER * voxels[0], _SPARSER * voxels[1]
        known = f"the model '{model.name}' was trained on voxels of {fine:g} to {coarse:g} m and works for {low:g} to {high:g} m"
        if spacing < low:
            return (
                f"points are {spacing:.2g} m apart (median); {known}. Downsample: poli.voxel_downsample(scan, {fine:g}), "
                f"--voxel {fine:g} on the command line; if the points are not in meters, scale them first"
            )
        if spacing > high:
            unit = "millimeters" if low <= spacing / _MILLIMETERS <= high else "another unit"
            return (
                f"points are {spacing:.3g} m apart (median); {known}. If they are in {unit}, scale them to meters; if the cloud is "
                "this sparse or was downsampled this far, use smaller voxels, or do not trust normals and sizes"
            )
    if count < FEWEST:
        return f"{count} points; the model '{model.name}' needs {FEWEST} or more to estimate the surface. Give more of the cloud"
    return None


def warn_of_distance(model: Model, points: np.ndarray, view: Viewpoint, stacklevel: int = 3) -> None:  # (N, 3)
    """Issue a `ViewpointWarning`, at the caller's caller, if the model uses the sensor position and it is implausible."""
    if not model.architecture.sensor or view.position is None:
        return
    middle = np.einsum("ni->i", points) / len(points)
    position = view.position if view.position.ndim == 1 else view.position.mean(axis=0)
    distance = float(np.linalg.norm(middle - position))
    if distance <= _REACH:
        return
    rays = points - view.position
    spread = float(np.sqrt(((rays - rays.mean(axis=0)) ** 2).sum(axis=1).mean()))
    if distance > _APART * spread:
        place = "the origin, the assumed sensor position" if not np.any(view.position) else "the given viewpoint"
        warnings.warn(
            f"points lie {distance / 1000.0:.0f} km from {place}; subtract the sensor position first, or pass `viewpoint` in "
            "Python (for several positions merged=True, --merged)",
            ViewpointWarning,
            stacklevel=stacklevel,
        )


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
    curvature: bool = False,
) -> Ellipsoids:
    """Estimate an ellipsoid for every point, with a network trained on pairs of clouds of the same surface.

    `model` is the name of a shipped model (`poli models` lists them) or the path of a `model.safetensors` written by
    `poli train`. Covariances are calibrated: matched points of two clouds of the same density differ by N(0, 2 C).

    Models for scans use the sensor position and the up direction. The defaults are the origin and the z axis, as in the frame of an
    upright sensor. Pass `up=None` if up is unknown, and `merged=True` for points that were seen from several positions.

    `motion` is the distance in meters between the scans that the sizes are for. It changes the sizes of the ellipsoids, not their
    directions. By default it is unknown, and the sizes are those of an average over standing, walking and driving.

    With `curvature=True`, the field also has the curvature of the surface (`field.curvatures`), for about a quarter more time.

    `model="pca"` calls `poli.pca` with `k` neighbors (default 24) or all neighbors within `radius` meters; it does not use the
    sensor position. Networks accept neither `k` nor `radius`.

    Unless `warn=False`, clouds that are denser or sparser than the training data (in other units, for instance) issue a
    `DensityWarning`, and points too far from the viewpoint to be seen from there issue a `ViewpointWarning`.
    """
    if model == PCA:
        for name, given in (("motion", motion is not None), ("curvature", curvature)):
            if given:
                raise InputError(f"{name} is given, but PCA has no use for it; leave it out, or choose a network")
        return pca(scan, NEIGHBORS if k is None else k, radius, viewpoint=viewpoint)
    for name, value in (("k", k), ("radius", radius)):
        if value is not None:
            what = f"{name} is {value!r}, but only PCA takes it and the model is {os.fspath(model)!r}"
            raise InputError(f"{what}; leave it out, or choose the model pca")
    points = points_of(scan).copy()
    view = view_of(viewpoint, up, merged, len(points))
    network = load_model(model)
    distance = checked_motion(motion)
    found = network.estimate(points, view, curvature, distance)
    if warn:
        warn_of_distance(network, points, view)
        warn_of_density(network, len(points), median_spacing(found.spacing))
    bent = None
    if found.quadrics is not None:
        bent = SecondOrder.of_fit(found.quadrics, points, np.zeros(3) if viewpoint is None else real_array(viewpoint, "viewpoint"))
    return Ellipsoids.trusted(points, found.covariances, viewpoint, bent)


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


_cached = lru_cache(maxsize=8)(lambda path, _changed: read_model(path))


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


# --- A summary of a shipped model; its card has the details.
#
# Each fact is stored once: architecture and training data in the file of weights, results and license in NAME.toml next to it.
# Hash and size are computed from the file.


@dataclass(frozen=True)
class ModelInfo:
    """Facts about a shipped model."""

    name: str
    about: str  # the first paragraph of the card
    sensors: tuple[str, ...]  # in the training data; `any` stands for random tables of beams; empty for objects
    voxels: tuple[float, float] | None  # meters, the smallest and the largest
    raw: bool  # whether it was also trained on scans that were not voxelized
    spacing: tuple[float, float] | None  # range of point spacing in meters that it works for; None: any
    least_points: int
    calibration: float
    results: str
    data_license: str
    weights: int
    multiply_adds: int  # per point
    bytes: int
    sha256: str  # of the file of weights


def facts_of(name: str) -> ModelInfo:
    """Return the facts about a shipped model."""
    card, model, content = model_card(name), load_model(name), shipped_file(name, ".safetensors").read_bytes()
    scans, voxels = model.training.get("scans") or {}, trained_voxels(model)
    return ModelInfo(
        name=name,
        about=" ".join(card.split("\n\n")[1].split()),
        sensors=tuple(scans.get("sensors", ())),
        voxels=voxels,
        raw=scans.get("raw_share", 0.0) > 0.0,
        spacing=None if voxels is None else (_DENSER * voxels[0], _SPARSER * voxels[1]),
        least_points=FEWEST,
        calibration=model.calibration,
        weights=sum(tensor.size for tensor in model.weights.values()),
        multiply_adds=round(model.own_architecture("multiply-adds").multiply_adds()),
        bytes=len(content),
        sha256=sha256(content).hexdigest(),
        **tomllib.loads(shipped_file(name, ".toml").read_text(encoding="utf-8")),  # results and data_license
    )

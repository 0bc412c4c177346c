"""`poli.densify`: append samples of the ellipsoids to a scan."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from poli.beams.corrections import RING_FIELDS, BeamCalibration
from poli.densification.config import DensifyConfig, why_little
from poli.densification.samples import Samples
from poli.densification.sampling import LEAST, beam_count, draw_samples, ellipsoid_places, output_order, ring_of, sample_fields
from poli.errors import DensityWarning, FormatError, InputError
from poli.estimation.estimate import complaint_of, load_model
from poli.io.messages import TIME_NAMES
from poli.options import takes_config
from poli.scan import Scan, ScanLike


def why_nothing(points: np.ndarray, config: DensifyConfig) -> str:  # (N, 3): a scan without samples
    """Return in one sentence why no points were added, without running the network. Empty if the options ask for none."""
    if config.per_point == 0 or (config.max_points is not None and config.max_points <= len(points)):
        return ""
    returns, places = ellipsoid_places(points, config)
    if len(places) < LEAST:
        where = f" in {len(places)} voxels of {config.voxel:g} m" if config.voxel and len(returns) >= LEAST else ""
        remedy = "use smaller voxels" if where else "give more of the cloud"
        return f"no points were added: {len(returns)} returns{where} are too few for ellipsoids, {LEAST} are needed; {remedy}"
    return f"no points were added: {_unfit(places, config)}{_density(places, config)}"


def _unfit(places: np.ndarray, config: DensifyConfig) -> str:  # (E, 3)
    total = len(places)
    far = int((np.einsum("ij,ij->i", places, places) > config.max_range**2).sum()) if config.max_range is not None else 0
    if far == total:
        return f"all {total} ellipsoids are farther than {config.max_range:g} m (max_range)"
    rules = [
        _too_inaccurate(config),
        f"less planar than {config.planarity:g} (planarity)" if config.planarity else "",
        f"in voxels that already have points (sample_voxel {config.sample_voxel:g} m)" if config.sample_voxel else "",
    ]
    others = " or ".join(rule for rule in rules if rule) or "of zero size"
    if not far:
        return f"all {total} ellipsoids are {others}"
    return f"{far} of {total} ellipsoids are farther than {config.max_range:g} m (max_range), the others are {others}"


def _too_inaccurate(config: DensifyConfig) -> str:
    if config.reach is None:
        return f"too inaccurate for samples within {config.max_error:g} m of the surface (max_error)"
    return f"thicker than {config.max_thickness:g} m (max_thickness)" if config.max_thickness is not None else ""


def _density(places: np.ndarray, config: DensifyConfig) -> str:
    complaint = None if config.model == "pca" else complaint_of(load_model(config.model), places)
    return "" if complaint is None else f"; {complaint}"


@takes_config(DensifyConfig)
def densify(
    scan: ScanLike,  # (N, 3)
    config: DensifyConfig | None = None,
    *,
    per_point: int | None = None,
    max_sigma: float | None = None,
    flat: bool = True,
    model: str = "lidar",
    voxel: float = 0.2,
    upright: bool = True,
    planarity: float = 0.0,
    max_range: float | None = 120.0,
    max_thickness: float | None = 0.05,
    max_points: int | None = None,
    sample_voxel: float = 0.0,
    seed: int = 0,
    calibration: BeamCalibration | None = None,
    max_error: float = 0.05,
    rings: int | None = None,
    order: str = "originals",
    purpose: str = "odometry",
    auto: bool = False,
) -> Scan:
    """Add points to a scan, on the surfaces that its ellipsoids describe: first the unchanged originals, then the samples.

    If the scan has rings with gaps between them, the gaps are filled where the returns below and above vouch for one surface.
    Otherwise, and if `per_point` or `max_sigma` is given, samples are drawn around the points.

    Each sample has the ring in which it lies, a time by its azimuth, and all other fields of its parent, the nearest return or the
    point it was drawn around. The same scan and options give the same samples. If no points are added, a `DensityWarning` gives
    the reason.

    Args:
        scan: a Scan, an (N, 3) array, or a cloud of another library.
        config: the options as one object. Keywords override its values.
        per_point: samples per ellipsoid; None: one, in scans whose gaps are not filled.
        max_sigma: maximum distance between a sample and its parent, in standard deviations. None: 12 with `per_point`, else as
            far as `max_error` allows.
        flat: samples lie in the plane through the ellipsoid's mean, across its normal.
        model: a shipped model, the path of a .safetensors file, or "pca".
        voxel: meters; one ellipsoid per voxel of the scan. 0: one per point.
        upright: the sensor's z axis points up.
        planarity: ellipsoids less planar than this are not sampled; 1 is a plane.
        max_range: meters from the sensor; ellipsoids farther away are not sampled. None: no limit.
        max_thickness: meters; with `max_sigma`, thicker ellipsoids are not sampled. None: no limit.
        max_points: total, including the originals; samples are dropped evenly. None: no limit.
        sample_voxel: meters; at most one sample per voxel of this size, none in voxels with an original. 0: no limit.
        seed: seed of the random samples.
        calibration: corrections of the sensor's beams. They are applied first, and the originals are returned corrected.
        max_error: meters; accepted error of the samples. Where a larger one is expected, there are none.
        rings: fill the gaps to at most this many rings, and number them all: ring r becomes ring k r, with k times as many rings.
        order: "originals": the points of the scan, then the samples; "time": all points by time and ring.
        purpose: "odometry", or "features": more samples, also where they are less accurate, for registration by local features.
        auto: leave the scan as it is if denser scans are unlikely to help other systems.
    """
    scan, settings = Scan.of(scan), config or DensifyConfig()
    dense, why = densify_or_say(scan, settings)
    if why:
        warnings.warn(why, DensityWarning, stacklevel=3)  # at the caller of the decorated function
    return dense


def densify_or_say(scan: Scan, settings: DensifyConfig) -> tuple[Scan, str]:
    """Return the densified scan, and the reason if no points were added (else empty). For callers that warn once for many scans."""
    scan = scan if settings.calibration is None else settings.calibration.apply(scan)
    if settings.auto and (why := why_little(scan)):
        return scan, f"left as it is: {why}"
    added = _add(scan.points, scan.fields, settings)
    points = np.concatenate([scan.points, added.samples.points.astype(scan.points.dtype)])
    before = {**scan.fields, **added.changed}
    fields = {name: _appended(values, added, name) for name, values in before.items()}
    dense = replace(scan, points=points, fields=fields)
    if settings.order == "time":
        dense = dense.select(output_order(fields, added.samples.parents, len(scan)))
    return dense, "" if len(added.samples.points) else why_nothing(scan.points, settings)


def densify_records(records: np.ndarray, config: DensifyConfig, where: str) -> tuple[np.ndarray, str]:  # (N,) -> (M,)
    """Densify records with fields x, y and z. A sample has the bytes of its parent, except for these three, time and ring."""
    for axis in "xyz":
        if axis not in (records.dtype.names or ()):
            raise FormatError(f"{where}: no field '{axis}'; the fields are {', '.join(records.dtype.names or ()) or 'none'}")
        if records.dtype[axis].kind != "f" or records.dtype[axis].shape:
            raise FormatError(f"{where}: field '{axis}' is of type {records.dtype[axis]}; only floats can hold samples")
    points = np.stack([records[axis].astype(records.dtype[axis].newbyteorder("=")) for axis in "xyz"], axis=1)
    if config.calibration is not None:
        points, records = _corrected(points, records, config.calibration, where)
    fields = _plain_fields(records, (*RING_FIELDS, *TIME_NAMES))
    if config.auto and (why := why_little(Scan(points, fields))):
        return records, f"left as it is: {why}"
    added = _add(points, fields, config)
    # Copy rows of bytes: copies of record arrays drop the bytes between the fields.
    size, count = records.dtype.itemsize, len(records)
    rows = np.ascontiguousarray(records).view(np.uint8).reshape(count, size)
    together = np.concatenate([rows, rows[added.samples.parents]]).reshape(-1).view(records.dtype)
    for column, axis in enumerate("xyz"):
        together[axis][count:] = added.samples.points[:, column]
    for name, values in added.changed.items():
        together[name][:count] = values
    for name, values in added.new.items():
        together[name][count:] = values
    if config.order == "time":
        order = output_order(_plain_fields(together, fields), added.samples.parents, count)
        together = together.view(np.uint8).reshape(-1, size)[order].reshape(-1).view(records.dtype)
    return together, "" if len(added.samples.points) else why_nothing(points, config)


class _Added(NamedTuple):
    samples: Samples
    changed: dict[str, np.ndarray]  # fields of the originals, each (N,)
    new: dict[str, np.ndarray]  # fields of the samples that differ from their parents', each (S,)


def _add(points: np.ndarray, fields: Mapping[str, np.ndarray], config: DensifyConfig) -> _Added:  # (N, 3)
    samples = draw_samples(points, config, None if config.rings is None else beam_count(ring_of(fields)))
    return _Added(samples, *sample_fields(points, fields, samples, config.rings is not None))


def _appended(values: np.ndarray, added: _Added, name: str) -> np.ndarray:  # (N, ...) -> (N + S, ...)
    return np.concatenate([values, added.new.get(name, values[added.samples.parents])])


def _plain_fields(records: np.ndarray, names: Iterable[str]) -> dict[str, np.ndarray]:  # each (N,)
    """The fields of these names that are single numbers, in the machine's byte order."""
    kept = [n for n in names if n in (records.dtype.names or ()) and not records.dtype[n].shape and records.dtype[n].kind in "biuf"]
    return {name: records[name].astype(records.dtype[name].newbyteorder("=")) for name in kept}


def _corrected(
    points: np.ndarray, records: np.ndarray, calibration: BeamCalibration, where: str
) -> tuple[np.ndarray, np.ndarray]:  # (N, 3), (N,)
    """Correct points, and the same three numbers of their records; the other bytes of a record are kept."""
    names = [name for name in RING_FIELDS if name in (records.dtype.names or ()) and not records.dtype[name].shape]
    fields = {name: records[name].astype(records.dtype[name].newbyteorder("=")) for name in names}
    try:
        points = calibration.apply(Scan(points, fields)).points
    except InputError as error:
        raise FormatError(f"{where}: {error}") from None
    size = records.dtype.itemsize
    records = np.ascontiguousarray(records).view(np.uint8).reshape(len(records), size).copy().reshape(-1).view(records.dtype)
    for column, axis in enumerate("xyz"):
        records[axis] = points[:, column]
    return points, records

"""`poli.densify`: append samples of the ellipsoids to a scan."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from poli.beams.corrections import RING_FIELDS, BeamCalibration
from poli.densification.config import DensifyConfig, why_little
from poli.densification.fields import all_fields, beam_count, output_order
from poli.densification.samples import LEAST, group, returns_of
from poli.densification.sampling import draw_samples
from poli.errors import DensityWarning, FormatError, InputError
from poli.estimation.estimate import complaint_of, load_model
from poli.io.messages import TIME_NAMES
from poli.options import takes_config
from poli.scan import Scan, ScanLike

_ROW = "row"  # field of the row of a record, or of its parent


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

    If the scan has rings with gaps between them, the gaps are filled if the ellipsoids below and above lie on one plane.
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


def densify_or_say(scan: Scan, config: DensifyConfig) -> tuple[Scan, str]:
    """Return the densified scan, and the reason if no points were added (else empty). For callers that warn once for many scans."""
    scan = scan if config.calibration is None else config.calibration.apply(scan)
    if config.auto and (why := why_little(scan)):
        return scan, f"left as it is: {why}"
    samples = draw_samples(scan.points, config, None if config.rings is None else beam_count(scan.fields))
    points = np.concatenate([scan.points, samples.points.astype(scan.points.dtype)])
    dense = replace(scan, points=points, fields=all_fields(scan.points, scan.fields, samples, config.rings is not None))
    if config.order == "time":
        dense = dense.select(output_order(dense.fields, np.concatenate([np.arange(len(scan)), samples.parents])))
    return dense, "" if len(samples.points) else _why_nothing(scan.points, config)


def densify_records(records: np.ndarray, config: DensifyConfig, where: str) -> tuple[np.ndarray, str]:  # (N,) -> (M,)
    """Densify records with fields x, y and z. A sample has the bytes of its parent, except for these three, time and ring."""
    names = records.dtype.names or ()
    for axis in "xyz":
        if axis not in names:
            raise FormatError(f"{where}: no field '{axis}'; the fields are {', '.join(names) or 'none'}")
        if records.dtype[axis].kind != "f" or records.dtype[axis].shape:
            raise FormatError(f"{where}: field '{axis}' is of type {records.dtype[axis]}; only floats can hold samples")
    known = [name for name in (*RING_FIELDS, *TIME_NAMES) if name in names and not records.dtype[name].shape]
    native = {name: records[name].astype(records.dtype[name].newbyteorder("=")) for name in (*"xyz", *known)}
    points = np.stack([native.pop(axis) for axis in "xyz"], axis=1)
    fields = {name: values for name, values in native.items() if values.dtype.kind in "biuf"}
    try:
        scan = Scan(points, {**fields, _ROW: np.arange(len(records))})
        dense, why = densify_or_say(scan, config)
    except InputError as error:
        error.about(where)
        raise
    # Copy rows of bytes: copies of record arrays drop the bytes between the fields.
    rows = np.ascontiguousarray(records).view(np.uint8).reshape(len(records), records.dtype.itemsize)
    together = rows[dense.fields[_ROW]].reshape(-1).view(records.dtype)
    for name, values in (*zip("xyz", dense.points.T, strict=True), *((name, dense.fields[name]) for name in fields)):
        together[name] = values
    return together, why


def _why_nothing(points: np.ndarray, config: DensifyConfig) -> str:  # (N, 3): a scan without samples
    """Return in one sentence why no points were added, without running the network. Empty if the options ask for none."""
    if config.per_point == 0 or (config.max_points is not None and config.max_points <= len(points)):
        return ""
    returns = returns_of(points)[1]
    places = group(returns, config.voxel)[0]
    if len(places) < LEAST:
        where = f" in {len(places)} voxels of {config.voxel:g} m" if config.voxel and len(returns) >= LEAST else ""
        remedy = "use smaller voxels" if where else "give more of the cloud"
        return f"no points were added: {len(returns)} returns{where} are too few for ellipsoids, {LEAST} are needed; {remedy}"
    far = 0 if config.max_range is None else int((np.einsum("ij,ij->i", places, places) > config.max_range**2).sum())
    rules = {
        f"farther than {config.max_range or 0:g} m (max_range)": far,
        f"too inaccurate for samples within {config.max_error:g} m of the surface (max_error)": config.reach is None,
        f"thicker than {config.max_thickness or 0:g} m (max_thickness)": config.max_thickness is not None
        and config.reach is not None,
        f"less planar than {config.planarity:g} (planarity)": config.planarity,
        f"in voxels that already have points (sample_voxel {config.sample_voxel:g} m)": config.sample_voxel,
    }
    reasons = [rule for rule, holds in rules.items() if holds][: 1 if far == len(places) else None]
    complaint = None if config.model == "pca" else complaint_of(load_model(config.model), places)
    unfit = f"all {len(places)} ellipsoids are {' or '.join(reasons) or 'of zero size'}"
    return f"no points were added: {unfit}{'' if complaint is None else f'; {complaint}'}"

"""`poli.densify`: append samples of the ellipsoids to a scan."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from poli.beams.corrections import RING_FIELDS
from poli.configs import DensifyConfig
from poli.densification.fields import all_fields, beam_count, output_order
from poli.densification.samples import LEAST, group, returns_of
from poli.densification.sampling import draw_samples
from poli.errors import DensityWarning, FormatError, InputError
from poli.estimation.estimate import complaint_of, load_model
from poli.io.messages import TIME_NAMES
from poli.options import configured, lists_options
from poli.scan import Scan, ScanLike

_ROW = "row"  # field of the row of a record, or of its parent

# Samples help where they fill gaps between rings (docs/densify.md). With 64 beams, registration by others had nothing left to gain,
# and with 128, odometry gained least, while every scan takes longer.
_MANY_BEAMS = 64
_MANY_RETURNS = 64 * 1024  # of a scan without rings: as many as 64 beams have with 1,024 returns each
# At this range, the rings of a VLP-16, 2 degrees apart, are 0.17 m apart: less than the voxels of the ellipsoids (0.2 m). There are
# no gaps between nearer rings, and the samples fall among the measured points.
_NEAR = 5.0  # meters, median range


@lists_options(DensifyConfig)
def densify(scan: ScanLike, config: DensifyConfig | None = None, **options: Any) -> Scan:  # (N, 3)
    """Add points to a scan, on the surfaces that its ellipsoids describe: first the unchanged originals, then the samples.

    If the scan has rings with gaps between them, the gaps are filled if the ellipsoids below and above lie on one plane.
    Otherwise, and if `per_point` or `max_sigma` is given, samples are drawn around the points.

    Each sample has the ring in which it lies, a time by its azimuth, and all other fields of its parent, the nearest return or the
    point it was drawn around. The same scan and options give the same samples. If no points are added, a `DensityWarning` gives
    the reason.

    Args:
        scan: a Scan, an (N, 3) array, or a cloud of another library.
        config: the options as one object. Keywords override its fields.
    """
    dense, why = densify_or_say(Scan.of(scan), configured(DensifyConfig, config, options))
    if why:
        warnings.warn(why, DensityWarning, stacklevel=2)
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


def why_little(scan: Scan) -> str:
    """Return in one sentence why denser scans are unlikely to help other systems, or "" if they may.

    The rule is for odometry and registration by other systems, as measured in docs/results. A viewer may profit in any case.
    """
    returns, reasons = scan.clean(), []
    if len(returns) < LEAST:
        return ""
    rings = returns.fields.get("ring")
    if rings is None or rings.ndim != 1:
        if len(returns) >= _MANY_RETURNS:
            reasons.append(f"the scan has {len(returns)} returns, as of {_MANY_BEAMS} beams or more")
    elif (beams := len(np.unique(rings))) >= _MANY_BEAMS:
        reasons.append(f"the scan has {beams} beams")
    distance = float(np.median(np.linalg.norm(returns.points.astype(np.float64), axis=1)))
    if distance < _NEAR:
        reasons.append(f"half of the returns are nearer than {distance:.1f} m")
    advice = "more points are unlikely to help other systems here, and they take more time"
    return f"{' and '.join(reasons)}: {advice}" if reasons else ""


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
    limits = ["max_range", "max_error" if config.reach is None else "max_thickness", "planarity", "sample_voxel"]
    values = [f"{name} {getattr(config, name):g}" for name in limits if getattr(config, name)]
    complaint = None if config.model == "pca" else complaint_of(load_model(config.model), places)
    why = f"none of {len(places)} ellipsoids can be sampled within the limits ({', '.join(values)})"
    return f"no points were added: {why}{'' if complaint is None else f'; {complaint}'}"

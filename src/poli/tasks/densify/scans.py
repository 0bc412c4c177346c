"""`poli.densify`: append samples of the ellipsoids to a scan."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from poli.beam_calibration import RING_FIELDS, BeamCalibration
from poli.errors import DensityWarning, FormatError, InputError
from poli.keywords import takes_config
from poli.scan import Scan, ScanLike
from poli.tasks.densify.config import DensifyConfig
from poli.tasks.densify.report import why_nothing
from poli.tasks.densify.sampling import draw_samples


@takes_config(DensifyConfig)
def densify(
    scan: ScanLike,  # (N, 3)
    config: DensifyConfig | None = None,
    *,
    per_point: int = 1,
    max_sigma: float = 12.0,
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
) -> Scan:
    """Add points to a scan, sampled from its ellipsoids: first the unchanged originals, then the samples.

    Each sample has the time, ring, intensity and all other fields of its parent, the point it was drawn around. The same scan and
    options give the same samples. If no points are added, a `DensityWarning` gives the reason.

    Args:
        scan: a Scan, an (N, 3) array, or a cloud of another library.
        config: the options as one object. Keywords override its values.
        per_point: samples per ellipsoid.
        max_sigma: maximum distance between a sample and its parent, in standard deviations.
        flat: samples lie in the plane through the ellipsoid's mean, across its normal.
        model: a shipped model, the path of a .safetensors file, or "pca".
        voxel: meters; one ellipsoid per voxel of the scan. 0: one per point.
        upright: the sensor's z axis points up.
        planarity: ellipsoids less planar than this are not sampled; 1 is a plane.
        max_range: meters from the sensor; ellipsoids farther away are not sampled. None: no limit.
        max_thickness: meters; ellipsoids with a larger smallest sigma are not sampled. None: no limit.
        max_points: total, including the originals; samples are dropped evenly. None: no limit.
        sample_voxel: meters; at most one sample per voxel of this size, none in voxels with an original. 0: no limit.
        seed: seed of the random samples.
        calibration: corrections of the sensor's beams. They are applied first, and the originals are returned corrected.
    """
    scan, settings = Scan.of(scan), config or DensifyConfig()
    dense, why = densify_or_say(scan, settings)
    if why:
        warnings.warn(why, DensityWarning, stacklevel=3)  # at the caller of the decorated function
    return dense


def densify_or_say(scan: Scan, settings: DensifyConfig) -> tuple[Scan, str]:
    """Return the densified scan, and the reason if no points were added (else empty). For callers that warn once for many scans."""
    scan = scan if settings.calibration is None else settings.calibration.apply(scan)
    samples = draw_samples(scan.points, settings)
    points = np.concatenate([scan.points, samples.points.astype(scan.points.dtype)])
    fields = {name: np.concatenate([values, values[samples.parents]]) for name, values in scan.fields.items()}
    why = "" if len(samples.points) else why_nothing(scan.points, settings)
    return replace(scan, points=points, fields=fields), why


def densify_records(records: np.ndarray, config: DensifyConfig, where: str) -> tuple[np.ndarray, str]:  # (N,) -> (M,)
    """Densify records with fields x, y and z. A sample has the bytes of its parent, except for these three."""
    for axis in "xyz":
        if axis not in (records.dtype.names or ()):
            raise FormatError(f"{where}: no field '{axis}'; the fields are {', '.join(records.dtype.names or ()) or 'none'}")
        if records.dtype[axis].kind != "f" or records.dtype[axis].shape:
            raise FormatError(f"{where}: field '{axis}' is of type {records.dtype[axis]}; only floats can hold samples")
    points = np.stack([records[axis].astype(records.dtype[axis].newbyteorder("=")) for axis in "xyz"], axis=1)
    if config.calibration is not None:
        points, records = _corrected(points, records, config.calibration, where)
    samples = draw_samples(points, config)
    # Copy rows of bytes: copies of record arrays drop the bytes between the fields.
    size = records.dtype.itemsize
    rows = np.ascontiguousarray(records).view(np.uint8).reshape(len(records), size)
    together = np.concatenate([rows, rows[samples.parents]]).reshape(-1).view(records.dtype)
    for column, axis in enumerate("xyz"):
        together[axis][len(records) :] = samples.points[:, column]
    return together, "" if len(samples.points) else why_nothing(points, config)


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

"""`poli.densify`: append samples of the ellipsoids to a scan."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from poli.beams.corrections import RING_FIELDS, BeamCalibration
from poli.configs import DensifyConfig
from poli.densification.config import why_little
from poli.densification.samples import Samples
from poli.densification.sampling import LEAST, beam_count, draw_samples, ellipsoid_places, output_order, ring_of, sample_fields
from poli.errors import DensityWarning, FormatError, InputError
from poli.estimation.estimate import complaint_of, load_model
from poli.io.messages import TIME_NAMES
from poli.options import configured, lists_options
from poli.scan import Scan, ScanLike

# --- Progress of a run, and the reason why no points were added to a scan.


@dataclass
class Tally:
    scans: int = 0
    kept: int = 0  # of these, finished by an earlier run
    points_in: int = 0
    points_out: int = 0
    unchanged: int = 0  # scans to which no points were added
    why: str = ""  # reason of the first one

    def add(self, points_in: int, points_out: int, why: str = "", kept: bool = False) -> None:
        self.scans += 1
        self.kept += kept
        self.points_in += points_in
        self.points_out += points_out
        self.unchanged += bool(why)
        self.why = self.why or why


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


@lists_options(DensifyConfig)
def densify(scan: ScanLike, config: DensifyConfig | None = None, **options: Any) -> Scan:  # (N, 3)
    """Add points to a scan, on the surfaces that its ellipsoids describe: first the unchanged originals, then the samples.

    If the scan has rings, a gap between two of them is filled if the ellipsoids on both sides lie on one plane.
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

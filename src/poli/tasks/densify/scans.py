"""`poli.densify`: a scan with samples of its ellipsoids behind its points."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from poli.errors import DensityWarning, FormatError, InputError
from poli.scan import Scan, ScanLike
from poli.tasks.densify.config import DensifyConfig
from poli.tasks.densify.report import why_nothing
from poli.tasks.densify.sampling import draw_samples


def densify(scan: ScanLike, config: DensifyConfig | None = None, **options: object) -> Scan:  # (N, 3)
    """The scan with points drawn from its ellipsoids: the originals first, as they are, then the samples.

    Every sample has the time, ring, intensity and whatever else of its parent, the point it was drawn around. Options are those of
    `DensifyConfig`: `poli.densify(scan, per_point=7, within=2.0)`. The same scan and options give the same samples.

    A scan that gets none brings a `DensityWarning` that says why.
    """
    scan, settings = Scan.of(scan), configured(config, options)
    dense, why = densify_or_say(scan, settings)
    if why:
        warnings.warn(why, DensityWarning, stacklevel=2)
    return dense


def densify_or_say(scan: Scan, settings: DensifyConfig) -> tuple[Scan, str]:
    """The denser scan, and why it is none; empty if it is. For those who do many scans and warn once."""
    samples = draw_samples(scan.points, settings)
    points = np.concatenate([scan.points, samples.points.astype(scan.points.dtype)])
    fields = {name: np.concatenate([values, values[samples.parents]]) for name, values in scan.fields.items()}
    why = "" if len(samples.points) else why_nothing(scan.points, settings)
    return replace(scan, points=points, fields=fields), why


def densify_records(records: np.ndarray, config: DensifyConfig, where: str) -> tuple[np.ndarray, str]:  # (N,) -> (M,)
    """The same for records with fields x, y and z, whatever else they hold: a sample is its parent's bytes, but for those three."""
    for axis in "xyz":
        if axis not in (records.dtype.names or ()):
            raise FormatError(f"{where}: no field '{axis}'; there are {', '.join(records.dtype.names or ()) or 'none'}")
        if records.dtype[axis].kind != "f" or records.dtype[axis].shape:
            raise FormatError(f"{where}: field '{axis}' is of type {records.dtype[axis]}; only floats can hold samples")
    points = np.stack([records[axis].astype(records.dtype[axis].newbyteorder("=")) for axis in "xyz"], axis=1)
    samples = draw_samples(points, config)
    # Rows of bytes: copies of record arrays leave out what lies between the fields.
    size = records.dtype.itemsize
    rows = np.ascontiguousarray(records).view(np.uint8).reshape(len(records), size)
    together = np.concatenate([rows, rows[samples.parents]]).reshape(-1).view(records.dtype)
    for column, axis in enumerate("xyz"):
        together[axis][len(records) :] = samples.points[:, column]
    return together, "" if len(samples.points) else why_nothing(points, config)


def configured(config: DensifyConfig | None, options: dict[str, object]) -> DensifyConfig:
    known = DensifyConfig.__dataclass_fields__
    unknown = [name for name in options if name not in known]
    if unknown:
        raise InputError(f"densify has no option {unknown[0]!r}; it has {', '.join(known)}")
    return replace(config or DensifyConfig(), **options)  # type: ignore[arg-type]

"""Convert per-point times of any driver to seconds from the stamp of the scan."""

from typing import Literal, get_args

import numpy as np

from poli.errors import FormatError, InputError
from poli.scan import Scan

TimeUnit = Literal["s", "ms", "us", "ns"]

TIME_NAMES = (
    "time", "t", "timestamp", "time_stamp", "timestamps", "offset_time", "time_offset", "t_offset", "point_time_offset",
    "time_offset_ns",
)  # fmt: skip
_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LONGEST = 1.0  # seconds; largest distance of a point from the stamp of its scan
_SHORTEST = 1e-3  # seconds; least duration of a scan whose points differ in time


def check_unit(unit: str | None) -> None:
    if unit is not None and unit not in _A_SECOND:
        raise InputError(f"time_unit is {unit!r}; expected one of {', '.join(get_args(TimeUnit))}")


def with_point_times(scan: Scan, unit: TimeUnit | None, where: str) -> Scan:
    """Convert the first field of `TIME_NAMES` to `time`, float64 seconds from `scan.stamp`.

    Without a `unit`, integers are nanoseconds and floats seconds, from the stamp or from 1970. Any other values are an error rather
    than a guess: microseconds read as nanoseconds would look like a sensor at rest.
    """
    name = next((n for n in TIME_NAMES if n in scan.fields), None)
    if name is None or scan.stamp is None:
        return scan
    values = scan.fields[name]
    if values.ndim != 1:
        raise FormatError(f"{where}: field '{name}' has {values.shape[1]} values per point; expected one time")
    seconds = _seconds(values, scan.stamp, unit)
    if seconds is None:
        raise FormatError(
            f"{where}: the times in field '{name}' ({values.dtype}, {values.min()} to {values.max()}) are neither offsets from the "
            f"stamp {scan.stamp} nor close to it in {unit or 'the usual units'}",
            argument="time_unit", remedy="pass {argument} (s, ms, us or ns)",
        )  # fmt: skip
    fields = {"time" if n == name else n: seconds if n == name else v for n, v in scan.fields.items()}
    return Scan(scan.points, fields, scan.stamp, scan.dropped)


def _seconds(values: np.ndarray, stamp: int, unit: TimeUnit | None) -> np.ndarray | None:
    known = values[np.isfinite(values)]
    if not len(known):
        return values.astype(np.float64)
    is_float = values.dtype.kind == "f"
    least, most = known.min().item(), known.max().item()  # exact, as Python numbers
    rate = _A_SECOND[unit or ("s" if is_float else "ns")]
    short = unit is None and 0 < (most - least) / rate < _SHORTEST
    if max(abs(least), abs(most)) / rate <= _LONGEST:
        return None if short else values.astype(np.float64) / rate
    if values.dtype.itemsize < 8:  # 32 bits are too few for a time since 1970
        return None
    whole, part = divmod(stamp, 10**9)
    for rate in (_A_SECOND[unit],) if unit else (1, 10**9, 10**6):
        origin = whole * rate
        if max(abs(least - origin), abs(most - origin)) / rate <= _LONGEST + 1.0:
            # Subtract before dividing, in integers where possible: nanoseconds since 1970 in float64 are off by about 100 ns.
            counts = values - origin if is_float else values.astype(np.int64) - origin
            return counts / rate - part * 1e-9
    return None

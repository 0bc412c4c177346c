"""`poli.register`: the pose between two clouds of one object, or two scans of one place, without a first guess."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.scan import ScanLike, points_of
from poli.tasks.pose_search import Registration, Search, register_by_normals
from poli.tasks.scan_registration import PRESETS, ScanPreset, register_scans

# Points of an object: with more, the search takes minutes, and its lengths, shares of the radius, mean nothing on a scan.
_MOST = 20_000


def register(
    source: ScanLike,  # (N, 3)
    target: ScanLike,  # (M, 3)
    *,
    preset: str | ScanPreset | None = None,
    source_field: Ellipsoids | None = None,
    target_field: Ellipsoids | None = None,
    estimator: Callable[[np.ndarray], Ellipsoids] | None = None,
    feature_radius: float | None = None,
    noise_bound: float | None = None,
    search: Search | None = None,
) -> Registration:
    """The pose T_target_source between two clouds of one object or place, however they are turned and shifted.

    Scans of a place: name their sensor as `preset` ("vlp16", "hdl32e", "hdl64e", "os1_64", "os2_128"), or give a `ScanPreset`. They
    are densified and thinned, and their normals turned to the sensor, which is at the origin: `register_scans`.

    Objects, the default: ellipsoids are estimated unless they are given (`estimator` makes those of a cloud; by default the trained
    network for objects), and their normals are turned outward from each cloud's centroid. Meant for some hundred to a few thousand
    points: thin larger clouds first; more than 20,000 are refused. Lengths are in the units of the points, and by default shares of
    the target's radius.

    `register_by_normals` does the rest and explains it.
    """
    if preset is not None:
        if source_field is not None or target_field is not None or estimator is not None:
            raise InputError("preset: scans are estimated as it says; leave out fields and estimator, or leave out preset")
        return register_scans(source, target, preset, feature_radius=feature_radius, noise_bound=noise_bound, search=search)
    source_points, target_points = points_of(source, "source", least=3), points_of(target, "target", least=3)
    for name, points in (("source", source_points), ("target", target_points)):
        if len(points) > _MOST:
            sensors = ", ".join(map(repr, PRESETS))
            what = f"{name}: {len(points)} points look like a scan, not an object"
            raise InputError(f"{what}; say whose, as preset={sensors}, or thin an object to {_MOST} points at most")
    normals = []
    for name, points, field in (("source", source_points, source_field), ("target", target_points, target_field)):
        if field is None:
            field = (estimator or _trained)(points)
        if len(field) != len(points):
            raise InputError(f"{name}: {len(points)} points and {len(field)} ellipsoids; one a point is needed")
        normals.append(field.oriented_normals(points.mean(axis=0), away=True))
    return register_by_normals(
        source_points, normals[0], target_points, normals[1],
        feature_radius=feature_radius, noise_bound=noise_bound, search=search or Search(),
    )  # fmt: skip


def _trained(points: np.ndarray) -> Ellipsoids:
    from poli.estimation import estimate

    return estimate(points, model="objects", warn=False)

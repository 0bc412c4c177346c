"""Two clouds in one panel, each a layer with its own color: clouds that were registered, or a scan and the samples added to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.scan import Scan
from poli.show.estimated import Estimates
from poli.show.panel import Panel
from poli.show.parts import Layer
from poli.show.scalars import scalars_of

_TOLERANCE = 1e-4  # meters: formats round coordinates


def merged_panels(
    clouds: Sequence[Scan], thin: Sequence[Scan], fields: Sequence[Ellipsoids], names: Sequence[str], how: Estimates
) -> list[Panel]:
    """A panel of points and one of ellipsoids, with a layer for each cloud; `fields` belong to the points of `thin`."""
    layers = tuple(Layer(name, len(cloud)) for name, cloud in zip(names, clouds, strict=True))
    shapes = tuple(Layer(name, 0, len(field)) for name, field in zip(names, fields, strict=True))
    points = np.concatenate([cloud.points.astype(np.float64) for cloud in clouds])
    means = np.concatenate([field.means for field in fields])
    covariances = np.concatenate([field.covariances for field in fields])
    faces = np.concatenate([field.means + field.normals for field in fields])  # viewpoints that preserve the normals' signs
    field = Ellipsoids.trusted(means, covariances, faces)
    return [
        Panel("Points", points=points, scalars=together([scalars_of(cloud) for cloud in clouds], clouds), layers=layers),
        Panel(
            how.name, field=field, caption=how.caption, scalars=together([scalars_of(cloud) for cloud in thin], thin), layers=shapes
        ),
    ]


def densified_panels(dense: Scan, original: Scan, names: tuple[str, str]) -> list[Panel]:
    """The original scan, and the densified one with its samples as a layer. Its first points are the originals."""
    count = len(original)
    if len(dense) < count or np.abs(dense.points[:count].astype(np.float64) - original.points).max(initial=0.0) > _TOLERANCE:
        raise InputError(
            f"the first {count} points of {names[0]} are not those of {names[1]}; give the scan that poli densify was run on "
            "(with --calibration, its originals are corrected, and cannot be recognized)"
        )
    layers = (Layer("originals", count), Layer("samples", len(dense) - count))
    caption = f"{len(dense) - count:,} samples, {len(dense) / max(count, 1):.1f} times as many points"
    here = np.zeros(3)
    return [
        Panel("Original", points=original, scalars=scalars_of(original), layers=(Layer("originals", count),), viewpoint=here),
        Panel("Densified", points=dense, caption=caption, scalars=scalars_of(dense), layers=layers, viewpoint=here),
    ]


def together(parts: Sequence[dict[str, np.ndarray]], clouds: Sequence[Scan]) -> dict[str, np.ndarray]:
    """The fields of several clouds, one after the other; unknown in clouds that lack one."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        name: np.concatenate([part.get(name, np.full(len(cloud), np.nan)) for part, cloud in zip(parts, clouds, strict=True)])
        for name in names
    }

"""Estimate the ellipsoids that a viewer shows for a scan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.data.simulate.truth import true_normals
from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.estimation import estimate
from poli.estimation.inference import PCA
from poli.scan import Scan
from poli.show.panel import Panel, flat_discs
from poli.show.scalars import colors_of, scalars_of
from poli.voxels import voxel_downsample

PCA_NEIGHBORS = 16  # at 0.5 m voxels, PCA normals are best with 8 to 16 (docs/results/geometry.md)
_VOXEL = 0.5  # meters
_LEAST = 16  # minimum number of points for `estimate`
_TRUTH = {"normal", "label", "mixed"}  # fields of a simulated scan


@dataclass(frozen=True)
class Estimates:
    """How the ellipsoids of a scan are estimated."""

    model: str = "lidar"  # a shipped model, the path of a .safetensors file, or "pca"
    voxel: float | None = None  # meters; 0: use every point; None: 0.5, or 0 for the model `objects`
    compare: bool = False  # also show PCA, and the ground truth if the scan has it

    def __post_init__(self) -> None:
        if self.compare and self.model == PCA:
            raise InputError("compare shows a network next to PCA, but the model is PCA; choose another model, or remove compare")

    @property
    def size(self) -> float:
        """Voxel size in meters; 0: no downsampling."""
        return (0.0 if self.model == "objects" else _VOXEL) if self.voxel is None else self.voxel

    @property
    def name(self) -> str:
        return "PCA" if self.model == PCA else "POLI"

    @property
    def caption(self) -> str:
        voxels = f", one point per {self.size:g} m voxel" if self.size else ""
        return (f"{PCA_NEIGHBORS} neighbors" if self.model == PCA else f"model {self.model}") + voxels

    def cloud(self, scan: Scan, name: str = "the scan") -> Scan:
        cloud = voxel_downsample(scan, self.size) if self.size else scan.clean()
        if len(cloud) < _LEAST:
            smaller = f" at voxels of {self.size:g} m; choose smaller voxels, or 0 for every point" if self.size else ""
            raise InputError(f"{name}: {len(cloud)} points are left of {len(scan)}{smaller}; {_LEAST} are needed")
        return cloud

    def field(self, cloud: Scan) -> Ellipsoids:
        return estimate(cloud, model=self.model, k=PCA_NEIGHBORS if self.model == PCA else None)


def scan_panels(scan: Scan, how: Estimates, name: str = "the scan") -> list[Panel]:
    """The panels of one scan: returns and ellipsoids; with `how.compare`, also PCA and the ground truth."""
    cloud = how.cloud(scan, name)
    field = how.field(cloud)
    here = None if scan_in_map else np.zeros(3)
    seen = {"viewpoint": here, "scalars": scalars_of(cloud)}
    first = Panel("Scan", points=scan, caption="all returns", viewpoint=here, scalars=scalars_of(scan), colors=colors_of(scan))
    panels = [first]
    if not how.compare:
        return [*panels, Panel(how.name, field=field, caption=how.caption, **seen)]
    truth = true_normals(scan, how.size) if set(scan.fields) >= _TRUTH else None  # (N, 3)
    rival = estimate(cloud, model=PCA, k=PCA_NEIGHBORS)
    # PCA's ellipsoids are as wide as their neighborhoods; draw them at about the size of the network's.
    smaller = float(f"{_width(field) / max(_width(rival), 1e-12):.2g}") or 1.0
    panels.append(Panel("PCA", field=rival, caption=f"{PCA_NEIGHBORS} neighbors{_off(rival, truth)}", sigma_scale=smaller))
    panels.append(Panel(how.name, field=field, caption=f"{how.caption}{_off(field, truth)}"))
    if truth is not None:
        discs = flat_discs(cloud, truth, how.size / 4.0 or _width(field) or 1.0)  # they just touch at two sigma
        panels.append(
            Panel("Truth", points=cloud, field=discs, normals=truth, caption="surfaces hit by the beams", directions_only=True)
        )
    return panels


def _width(field: Ellipsoids) -> float:
    """Median extent of the ellipsoids along the surface, in meters."""
    return float(np.median(np.sqrt(field.scales[:, 1] * field.scales[:, 2])))


def _off(field: Ellipsoids, truth: np.ndarray | None) -> str:
    """The normal error, for a caption."""
    if truth is None or not np.isfinite(truth[:, 0]).any():
        return ""
    known = np.isfinite(truth[:, 0])
    cosine = np.abs(np.einsum("ij,ij->i", field.normals[known], truth[known]))
    angle = np.degrees(np.arccos(np.clip(cosine, 0.0, 1.0)))
    return f"; median normal error {np.median(angle):.1f}°, {(angle < 10.0).mean():.0%} within 10°"

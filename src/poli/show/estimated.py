"""Scans for the eye: what a viewer shows of them, estimated on the way."""

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
from poli.voxels import voxel_downsample

PCA_NEIGHBORS = 16  # on voxels of half a meter its normals are best with 8 to 16 (docs/results/geometry.md)
_VOXEL = 0.5  # meters
_LEAST = 16  # points that `estimate` needs
_TRUTH = {"normal", "label", "mixed"}  # fields of a simulated scan


@dataclass(frozen=True)
class Estimates:
    """How scans become ellipsoids."""

    model: str = "lidar"  # a shipped model, the path of a .safetensors file, or "pca"
    voxel: float | None = None  # meters; 0: every point; None: 0.5, or every point for the model `objects`
    compare: bool = False  # PCA beside it, and the truth where a scan has it

    def __post_init__(self) -> None:
        if self.compare and self.model == PCA:
            raise InputError("compare adds PCA beside a network, and the model is PCA; choose another model, or leave it out")

    @property
    def size(self) -> float:
        """Of the voxels, in meters; 0: none."""
        return (0.0 if self.model == "objects" else _VOXEL) if self.voxel is None else self.voxel

    @property
    def name(self) -> str:
        return "PCA" if self.model == PCA else "POLI"

    @property
    def caption(self) -> str:
        voxels = f", one point in each voxel of {self.size:g} m" if self.size else ""
        return (f"{PCA_NEIGHBORS} neighbors" if self.model == PCA else f"by the model {self.model}") + voxels

    def cloud(self, scan: Scan, name: str = "the scan") -> Scan:
        cloud = voxel_downsample(scan, self.size) if self.size else scan.clean()
        if len(cloud) < _LEAST:
            smaller = f" at voxels of {self.size:g} m; choose smaller ones, or 0 for every point" if self.size else ""
            raise InputError(f"{name}: {len(cloud)} points are left of {len(scan)}{smaller}; {_LEAST} are needed")
        return cloud

    def field(self, cloud: Scan) -> Ellipsoids:
        return estimate(cloud, model=self.model, k=PCA_NEIGHBORS if self.model == PCA else None)


def scan_panels(scan: Scan, how: Estimates, name: str = "the scan") -> list[Panel]:
    """The returns, and the ellipsoids of one scan; with PCA's between them, and the truth behind, if they are to be compared."""
    cloud = how.cloud(scan, name)
    field = how.field(cloud)
    panels = [Panel("Scan", points=scan, caption="all returns")]
    if not how.compare:
        return [*panels, Panel(how.name, field=field, caption=how.caption)]
    truth = true_normals(scan, how.size) if set(scan.fields) >= _TRUTH else None  # (N, 3)
    rival = estimate(cloud, model=PCA, k=PCA_NEIGHBORS)
    # PCA's ellipsoids are as wide as the neighborhood they come from; drawn at about the size of the network's.
    smaller = float(f"{_width(field) / max(_width(rival), 1e-12):.2g}") or 1.0
    panels.append(Panel("PCA", field=rival, caption=f"{PCA_NEIGHBORS} neighbors{_off(rival, truth)}", sigma_scale=smaller))
    panels.append(Panel(how.name, field=field, caption=f"{how.caption}{_off(field, truth)}"))
    if truth is not None:
        discs = flat_discs(cloud, truth, how.size / 4.0 or _width(field) or 1.0)  # at two sigmas they just touch
        panels.append(
            Panel("Truth", points=cloud, field=discs, normals=truth, caption="the surfaces that were hit", directions_only=True)
        )
    return panels


def _width(field: Ellipsoids) -> float:
    """Of a typical ellipsoid along the surface, in meters."""
    return float(np.median(np.sqrt(field.scales[:, 1] * field.scales[:, 2])))


def _off(field: Ellipsoids, truth: np.ndarray | None) -> str:
    """How far normals are from the true ones, for a caption."""
    if truth is None or not np.isfinite(truth[:, 0]).any():
        return ""
    known = np.isfinite(truth[:, 0])
    cosine = np.abs(np.einsum("ij,ij->i", field.normals[known], truth[known]))
    angle = np.degrees(np.arccos(np.clip(cosine, 0.0, 1.0)))
    return f"; normals off by {np.median(angle):.1f}° (median), {(angle < 10.0).mean():.0%} within 10°"

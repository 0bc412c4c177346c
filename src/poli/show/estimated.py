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

    def field(self, cloud: Scan, viewpoint: np.ndarray | None = None, merged: bool = False) -> Ellipsoids:  # (3,)
        k = PCA_NEIGHBORS if self.model == PCA else None
        return estimate(cloud, model=self.model, k=k, viewpoint=viewpoint, merged=merged)


def scan_panels(
    scan: Scan, how: Estimates, name: str = "the scan", above: np.ndarray | None = None, T_map_scan: np.ndarray | None = None
) -> list[Panel]:
    """The panels of one scan: returns and ellipsoids; with `how.compare`, also PCA and the ground truth.

    A cloud in map coordinates was centered before: `above` is where its normals face, `T_map_scan` moves the panels back.
    """
    cloud = how.cloud(scan, name)
    field = how.field(cloud, above, merged=above is not None)
    here = np.zeros(3) if above is None else None
    scalars = scalars_of(cloud)
    colors = colors_of(cloud)
    first = Panel(
        "Scan", _placed(scan, T_map_scan), caption="all returns", viewpoint=here, scalars=scalars_of(scan), colors=colors_of(scan)
    )
    panels = [first]
    if not how.compare:
        shown = field if T_map_scan is None else field.transform(T_map_scan)
        return [*panels, Panel(how.name, field=shown, caption=how.caption, viewpoint=here, scalars=scalars, colors=colors)]
    truth = true_normals(scan, how.size) if set(scan.fields) >= _TRUTH and above is None else None  # (N, 3)
    rival = estimate(cloud, model=PCA, k=PCA_NEIGHBORS, viewpoint=above)
    # PCA's ellipsoids are as wide as their neighborhoods; draw them at about the size of the network's.
    smaller = float(f"{_width(field) / max(_width(rival), 1e-12):.2g}") or 1.0
    caption = f"{PCA_NEIGHBORS} neighbors{_off(rival, truth)}"
    shown = rival if T_map_scan is None else rival.transform(T_map_scan)
    panels.append(Panel("PCA", field=shown, caption=caption, sigma_scale=smaller, viewpoint=here, scalars=scalars, colors=colors))
    shown = field if T_map_scan is None else field.transform(T_map_scan)
    caption = f"{how.caption}{_off(field, truth)}"
    panels.append(Panel(how.name, field=shown, caption=caption, viewpoint=here, scalars=scalars, colors=colors))
    if truth is not None:
        discs = flat_discs(cloud, truth, how.size / 4.0 or _width(field) or 1.0)  # they just touch at two sigma
        panels.append(
            Panel(
                "Truth",
                points=cloud,
                field=discs,
                normals=truth,
                caption="surfaces hit by the beams",
                directions_only=True,
                viewpoint=here,
                scalars=scalars,
            )
        )
    return panels


def _placed(scan: Scan, T: np.ndarray | None) -> Scan:
    return scan if T is None else scan.transform(T)


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

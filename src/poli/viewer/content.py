"""What a viewer shows of scans: panels of one scan or of two, and scans in order as a timeline and fused into one world."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.estimation import estimate
from poli.estimation.estimate import PCA
from poli.io.datasets import Dataset
from poli.lidar_odometry.local_map import EllipsoidMap
from poli.scan import Scan
from poli.se3 import check_pose
from poli.viewer.panel import Frame, Layer, Panel, colors_of, flat_discs, scalars_of
from poli.voxels import VOXELS_REACH, check_reach, voxel_downsample, voxel_numbers
from poli.worlds.sweep import true_normals

PCA_NEIGHBORS = 16  # at 0.5 m voxels, PCA normals are best with 8 to 16 (docs/results/geometry.md)
_VOXEL = 0.5  # meters
_LEAST = 16  # minimum number of points for `estimate`
_TRUTH = {"normal", "label", "mixed"}  # fields of a simulated scan
_TOLERANCE = 1e-4  # meters: formats round coordinates


@dataclass(frozen=True)
class Estimates:
    """How the ellipsoids of a scan are estimated."""

    model: str = "lidar"  # a shipped model, the path of a .safetensors file, or "pca"
    voxel: float | None = None  # meters; 0: use every point; None: 0.5, or 0 for the model `objects`
    compare: bool = False  # also show PCA, and the ground truth if the scan has it

    @property
    def size(self) -> float:
        """Voxel size in meters; 0: no downsampling."""
        return (0.0 if self.model == "objects" else _VOXEL) if self.voxel is None else self.voxel

    @property
    def name(self) -> str:
        """The name of a panel of these ellipsoids."""
        return "PCA" if self.model == PCA else "POLI"

    @property
    def caption(self) -> str:
        """How they are estimated, for a panel's caption."""
        voxels = f", one point per {self.size:g} m voxel" if self.size else ""
        return (f"{PCA_NEIGHBORS} neighbors" if self.model == PCA else f"model {self.model}") + voxels

    def cloud(self, scan: Scan, name: str = "the scan") -> Scan:
        """The points that get an ellipsoid."""
        cloud = voxel_downsample(scan, self.size) if self.size else scan.clean()
        if len(cloud) < _LEAST:
            smaller = f" at voxels of {self.size:g} m; choose smaller voxels, or 0 for every point" if self.size else ""
            raise InputError(f"{name}: {len(cloud)} points are left of {len(scan)}{smaller}; {_LEAST} are needed")
        return cloud

    def field(self, cloud: Scan, above: np.ndarray | None = None) -> Ellipsoids:  # (3,)
        """The ellipsoids of `cloud`. A map has no sensor at its origin; its normals face `above`."""
        k = PCA_NEIGHBORS if self.model == PCA else None
        return estimate(cloud, model=self.model, k=k, viewpoint=above, merged=above is not None)


# --- One scan, or two clouds, each a layer with its own color.


def scan_panels(
    scan: Scan, how: Estimates, name: str = "the scan", above: np.ndarray | None = None, T_map_scan: np.ndarray | None = None
) -> list[Panel]:
    """The panels of one scan: returns and ellipsoids; with `how.compare`, also PCA and the ground truth.

    A cloud in map coordinates was centered before: `above` is where its normals face, `T_map_scan` moves the panels back.
    """
    cloud = how.cloud(scan, name)
    field = how.field(cloud, above)
    here = np.zeros(3) if above is None else None
    scalars, colors = scalars_of(cloud), colors_of(cloud)

    def panel(name: str, field: Ellipsoids, caption: str, sigma_scale: float = 1.0) -> Panel:
        shown = field if T_map_scan is None else field.transform(T_map_scan)
        return Panel(name, field=shown, caption=caption, sigma_scale=sigma_scale, viewpoint=here, scalars=scalars, colors=colors)

    placed = scan if T_map_scan is None else scan.transform(T_map_scan)
    returns = Panel("Scan", placed, caption="all returns", viewpoint=here, scalars=scalars_of(scan), colors=colors_of(scan))
    if not how.compare:
        return [returns, panel(how.name, field, how.caption)]
    truth = true_normals(scan, how.size) if set(scan.fields) >= _TRUTH and above is None else None  # (N, 3)
    rival = estimate(cloud, model=PCA, k=PCA_NEIGHBORS, viewpoint=above)
    # PCA's ellipsoids are as wide as their neighborhoods; draw them at about the size of the network's.
    smaller = float(f"{_width(field) / max(_width(rival), 1e-12):.2g}") or 1.0
    panels = [
        returns,
        panel("PCA", rival, f"{PCA_NEIGHBORS} neighbors{_off(rival, truth)}", smaller),
        panel(how.name, field, f"{how.caption}{_off(field, truth)}"),
    ]
    if truth is not None:
        discs = flat_discs(cloud, truth, how.size / 4.0 or _width(field) or 1.0)  # they just touch at two sigma
        about = "surfaces hit by the beams"
        panels.append(Panel("Truth", cloud, discs, truth, caption=about, directions_only=True, viewpoint=here, scalars=scalars))
    return panels


def _width(field: Ellipsoids) -> float:
    """Median extent of the ellipsoids along the surface, in meters."""
    return float(np.median(np.sqrt(field.scales[:, 1] * field.scales[:, 2])))


def _off(field: Ellipsoids, truth: np.ndarray | None) -> str:
    """The normal error, for a caption."""
    errors = np.empty(0) if truth is None else normal_errors(field, truth)
    return f"; median normal error {np.median(errors):.1f}°, {(errors < 10.0).mean():.0%} within 10°" if len(errors) else ""


def normal_errors(field: Ellipsoids, truth: np.ndarray) -> np.ndarray:  # (N, 3) -> (n,)
    """The angles between the normals of a field and the true ones in degrees, where those are known."""
    known = np.isfinite(truth[:, 0])
    cosine = np.abs(np.einsum("ij,ij->i", field.normals[known], truth[known]))
    return np.degrees(np.arccos(np.clip(cosine, 0.0, 1.0)))


def merged_panels(
    clouds: Sequence[Scan], thin: Sequence[Scan], fields: Sequence[Ellipsoids], names: Sequence[str], how: Estimates
) -> list[Panel]:
    """A panel of points and one of ellipsoids, with a layer for each cloud; `fields` belong to the points of `thin`."""
    layers = tuple(Layer(name, len(cloud)) for name, cloud in zip(names, clouds, strict=True))
    shapes = tuple(Layer(name, 0, len(field)) for name, field in zip(names, fields, strict=True))
    points = np.concatenate([cloud.points.astype(np.float64) for cloud in clouds])
    field = Ellipsoids.trusted(
        np.concatenate([field.means for field in fields]),
        np.concatenate([field.covariances for field in fields]),
        np.concatenate([field.means + field.normals for field in fields]),  # viewpoints that preserve the normals' signs
    )
    return [
        Panel("Points", points, scalars=_together(clouds), layers=layers),
        Panel(how.name, field=field, caption=how.caption, scalars=_together(thin), layers=shapes),
    ]


def _together(clouds: Sequence[Scan]) -> dict[str, np.ndarray]:
    """The scalars of several clouds, one after the other; unknown in clouds that lack one."""
    parts = [scalars_of(cloud) for cloud in clouds]
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        name: np.concatenate([part.get(name, np.full(len(cloud), np.nan)) for part, cloud in zip(parts, clouds, strict=True)])
        for name in names
    }


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
        Panel("Original", original, scalars=scalars_of(original), layers=layers[:1], viewpoint=here),
        Panel("Densified", dense, caption=caption, scalars=scalars_of(dense), layers=layers, viewpoint=here),
    ]


# --- Scans in order: fused into one world by known poses, and as the frames of a timeline, thinned so that the page stays small.


FARTHEST = 120.0  # meters: farther returns are sparse and would mostly add empty space
MOST_BYTES = 38_000_000  # of all frames; base64 adds a third, and the map a few megabytes: the page stays below 60 MB
_LEAST_FUSED = 64  # minimum points of a scan for ellipsoids
_EVERYTHING = 1e9  # meters: keep all cells
_FINEST = 0.05  # meters, smallest cell size
_POINT, _ELLIPSOID, _SCALAR = 6, 20, 2  # bytes
_PROBES = 6  # scans that the sizes of the voxels are chosen by
_MARGIN = 0.9  # other scans may have more points


@dataclass(frozen=True, eq=False)
class Moment:
    """One scan of a series."""

    number: int  # index in the dataset
    scan: Scan
    field: Ellipsoids | None  # None if the scan has too few points
    T_world_scan: np.ndarray | None  # (4, 4); None if unknown
    cloud: Scan  # the points that the ellipsoids belong to


def spread(count: int, most: int) -> np.ndarray:
    """At most `most` evenly spaced indices below `count`, including the first and the last."""
    return np.arange(count) if count <= most else np.unique(np.linspace(0, count - 1, most).round().astype(int))


@dataclass(frozen=True, eq=False)
class Series:
    """The scans of a dataset from `first` on, with their poses if they are known."""

    data: Dataset
    how: Estimates
    poses: np.ndarray | None = None  # (M, 4, 4) T_world_scan
    first: int = 0

    def __len__(self) -> int:
        count = len(self.data) - self.first
        return max(0, count if self.poses is None else min(count, len(self.poses)))

    def moments(self, rows: np.ndarray) -> Iterator[Moment]:
        """Yield scans with their ellipsoids."""
        for row in rows.tolist():
            scan = self._scan(row)
            cloud = self.how.cloud(scan) if len(scan) >= _LEAST_FUSED else scan
            field = self.how.field(cloud) if len(cloud) >= _LEAST_FUSED else None
            pose = None if self.poses is None else check_pose(self.poses[row], f"pose {row}")
            yield Moment(self.first + row, scan, field, pose, cloud)

    def _scan(self, row: int) -> Scan:
        """The valid returns of a scan that are worth showing."""
        scan = self.data[self.first + row].clean()
        near = (scan.points.astype(np.float64) ** 2).sum(axis=1) <= FARTHEST**2
        return scan if near.all() else scan.select(near)

    def thinned(self, rows: np.ndarray, most: int = MOST_BYTES) -> tuple[Series, float | None]:
        """Choose voxels so that `rows` fit into `most` bytes, half of them points and half ellipsoids.

        Returns the series with ellipsoids of voxels that may be larger, and the voxels of the points in meters; None: all points.
        """
        probes = [self._scan(row) for row in rows[:: max(1, len(rows) // _PROBES)].tolist()]
        room = _MARGIN * most / max(len(rows), 1) / 2.0  # bytes
        scalars = max((_SCALAR * len(scalars_of(scan)) for scan in probes), default=0)
        points, shapes = (_voxel_of(probes, int(room / (kind + scalars))) for kind in (_POINT, _ELLIPSOID))
        how = self.how if shapes is None or shapes <= self.how.size else replace(self.how, voxel=shapes)
        return replace(self, how=how), points


def fused_world(moments: Iterator[Moment], voxel: float) -> tuple[Ellipsoids, int]:
    """Return one ellipsoid per observed cell, in the world frame, and the number of fused scans."""
    world = EllipsoidMap(max(voxel, _FINEST), _EVERYTHING)
    positions = []
    for moment in moments:
        if moment.field is not None and moment.T_world_scan is not None:
            world.add(moment.field, moment.T_world_scan)
            positions.append(moment.T_world_scan[:3, 3])
    sensor = np.mean(positions or [np.zeros(3)], axis=0)  # normals face it
    return Ellipsoids.trusted(world.field.means, world.field.covariances, sensor), len(positions)


def frames_of(moments: Iterator[Moment], voxel: float | None) -> Iterator[Frame]:
    """The frames of a timeline, with one point per voxel, moved into the world by their poses. Empty scans are left out."""
    began: int | None = None
    for moment in moments:
        scan, T, field = moment.scan, moment.T_world_scan, moment.field
        if not len(scan):
            continue
        began = scan.stamp if began is None else began
        shown = scan if voxel is None else voxel_downsample(scan, voxel, pick="first")
        points = shown.points.astype(np.float64)
        yield Frame(
            f"Scan {moment.number}",
            points if T is None else points @ T[:3, :3].T + T[:3, 3],
            scalars_of(shown),
            field if T is None or field is None else field.transform(T),
            {} if field is None else scalars_of(moment.cloud),
            np.zeros(3) if T is None else T[:3, 3],
            None if scan.stamp is None or began is None else (scan.stamp - began) / 1e9,
            len(scan),
        )


def _voxel_of(probes: list[Scan], most: int) -> float | None:
    """A voxel, of two digits, that leaves about `most` points of a scan; None if no scan has more."""
    sizes = [voxel_for(np.array(scan.points), max(most, 1)) for scan in probes]
    larger = [size for size in sizes if size is not None]
    if not larger:
        return None
    size = float(np.mean(larger))
    power = 10.0 ** (np.floor(np.log10(size)) - 1.0)
    return float(f"{np.ceil(size / power) * power:.2g}")


# --- Thin large maps: one point or ellipsoid per voxel of a size that leaves few enough.


_LARGER = 1.1  # factor between the voxel sizes that are tried


def thin_points(scan: Scan, most: int) -> tuple[Scan, float | None]:
    """Return at most `most` points, each the mean of a voxel, and the size of the voxels in meters; None if all points remain."""
    size = voxel_for(scan.points, most)
    return (scan, None) if size is None else (voxel_downsample(scan.keep(), size), size)


def thin_field(field: Ellipsoids, most: int) -> tuple[Ellipsoids, float | None]:
    """Return at most `most` ellipsoids, each with the mean and covariance of all that are in its voxel, and the size of the voxels
    in meters; None if all ellipsoids remain. Merged ellipsoids cover the same surface; a subset would leave holes."""
    places = np.array(field.means)  # writable and contiguous: the types that the kernel is compiled for
    size = voxel_for(places, most)
    if size is None:
        return field, None
    voxels, first = voxel_numbers(places, size)
    means = _means(voxels, places, len(first))
    apart = places - means[voxels]
    spread = field.covariances + apart[:, :, None] * apart[:, None, :]
    covariances = _means(voxels, spread.reshape(-1, 9), len(first)).reshape(-1, 3, 3)
    normals = field.normals[first]  # which side faced the sensor
    return Ellipsoids.trusted(means, covariances, means + normals), size


def voxel_for(points: np.ndarray, most: int) -> float | None:  # (N, 3)
    """Return the smallest voxel size, to 10 %, that leaves at most `most` points; None if there are no more."""
    if len(points) <= most:
        return None
    reach = float(np.abs(points).max())
    low, high = reach / (0.5 * VOXELS_REACH), 2.0 * reach  # the largest has eight voxels in all
    check_reach(points, low)
    while high > _LARGER * low:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if len(voxel_numbers(points, middle)[1]) > most else (low, middle)
    return high


def _means(groups: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:  # (N,), (N, c) -> (count, c)
    sums = np.stack([np.bincount(groups, column, count) for column in values.T], axis=1)
    return sums / np.bincount(groups, minlength=count).astype(np.float64)[:, None]

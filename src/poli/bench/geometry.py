"""`poli bench geometry`: ellipsoids of scans against the true surface in held-out worlds, and against the next real scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from poli.bench.held_out import HeldOut, held_out_pairs
from poli.bench.likelihood import NEIGHBOURS, Matches, nll, right, squared, tuned_pca
from poli.bench.real_sequences import RealConfiguration, real_configurations, real_pairs
from poli.bench.report import Report, publish
from poli.bench.surface_measures import AngleErrors, angles, by_band, coverage, sample_distances
from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.estimation import estimate, pca
from poli.scan import Scan

CONFIGURATIONS = (
    *(("vlp16", v) for v in (0.2, 0.5, 1.0)),
    *(("hdl32e", v) for v in (0.2, 0.5, 1.0)),
    *(("hdl64e", v) for v in (1.0, 1.5, 2.0)),
    *(("os1_64", v) for v in (0.5, 1.0)),
    *(("os2_128", v) for v in (1.0, 1.5, 2.0)),
)
RADII = (1.5, 2.5, 4.0, 6.0)  # of radius PCA, in voxels
FAR = 25.0  # metres
_SIGMAS = (0.5, 1.0)
_REACH = 0.2  # metres within which a sample covers the surface
_PER_POINT = 8


@dataclass(frozen=True)
class GeometryBench:
    model: str = "lidar"
    spots: int = 2  # in each of six held-out places
    configurations: tuple[tuple[str, float], ...] = CONFIGURATIONS
    real: Path | None = None  # a folder in the layout of KITTI odometry with the real sequences
    real_count: int = 8  # pairs of each


@dataclass(frozen=True)
class Judged:
    """What one method is worth in one configuration."""

    all: AngleErrors
    far: AngleErrors
    bands: dict[str, AngleErrors]
    nll: float
    median: float  # of d'(2C)^-1 d
    mean: float
    believed_mean: float  # of the matches as far as they are believed to be right, under the mixture
    sample_distance: dict[str, float]  # by sigma: mean, metres
    covered: dict[str, float]  # by sigma


def run(config: GeometryBench, out: Path, json_path: Path | None, command: str) -> None:
    sensors = list(dict.fromkeys(sensor for sensor, _ in config.configurations))
    scans = list(held_out_pairs(sensors, config.spots))
    figures: dict[str, Any] = {"held_out": {}, "real": {}}
    for sensor, voxel in track(config.configurations, "held-out worlds"):
        figures["held_out"][f"{sensor}, {voxel:g} m"] = judge([s for s in scans if s.sensor == sensor], voxel, config.model)
    if config.real is not None:
        for configuration in track(real_configurations(), "real sequences"):
            figures["real"][configuration.label] = judge_real(config.real, configuration, config.real_count, config.model)
    publish(_held_out_report(figures["held_out"], command, config), "geometry", out, json_path)
    publish(_bands_report(figures["held_out"], command), "geometry_bands", out, None)
    if config.real is not None:
        publish(_real_report(figures["real"], command), "geometry_real", out, None)


def judge(scans: Sequence[HeldOut], voxel: float, model: str) -> dict[str, Any]:
    """POLI, PCA with the k that has the least normal RMSE here, radius PCA with the best radius, and PCA tuned for likelihood."""
    if not scans:
        raise InputError("no scans of this sensor")
    clouds = [(s.cloud(voxel), s.normals(voxel)) for s in scans]
    matches = [s.matches(voxel) for s in scans]
    by_k = {k: normal_angles(clouds, [pca(c, k=k) for c, _ in clouds]) for k in NEIGHBOURS}
    by_radius = {r: normal_angles(clouds, [pca(c, radius=r * voxel) for c, _ in clouds]) for r in RADII}
    best_k = min(by_k, key=lambda k: AngleErrors.of(by_k[k][0]).rmse)
    best_radius = min(by_radius, key=lambda r: AngleErrors.of(by_radius[r][0]).rmse)
    median_k = min(by_k, key=lambda k: AngleErrors.of(by_k[k][0]).median)
    far_k = min(by_k, key=lambda k: AngleErrors.of(by_k[k][0][by_k[k][1] >= FAR]).rmse)
    tuned = tuned_pca(matches)
    poli = [estimate(cloud, model) for cloud, _ in clouds]
    degrees, ranges = normal_angles(clouds, poli)
    rival = [Ellipsoids.trusted(m.points, tuned.covariances(m.points)) for m in matches]
    return {
        "points": float(np.mean([len(c) for c, _ in clouds])),
        "poli": asdict(_judged(scans, degrees, ranges, poli, matches)),
        "pca": asdict(_judged(scans, *by_k[best_k], rival, matches)),
        "pca_k": best_k,
        "pca_far_rmse": AngleErrors.of(by_k[far_k][0][by_k[far_k][1] >= FAR]).rmse,
        "pca_far_k": far_k,
        "pca_best_median": AngleErrors.of(by_k[median_k][0]).median,
        "radius_pca": asdict(AngleErrors.of(by_radius[best_radius][0])),
        "radius_voxels": best_radius,
        "tuned": asdict(tuned),
    }


def judge_real(root: Path, configuration: RealConfiguration, count: int, model: str) -> dict[str, Any]:
    pairs = real_pairs(root, configuration, count)
    matches = [pair.matches(configuration.voxel) for pair in pairs]
    tuned = tuned_pca(matches)
    losses, squares = likelihoods(matches, [estimate(m.points, model) for m in matches])
    return {
        "points": float(np.mean([len(m.points) for m in matches])),
        "refined": sum(pair.refined for pair in pairs),
        "pairs": len(pairs),
        "poli_nll": float(losses.mean()),
        "poli_median": float(np.median(squares)),
        "poli_mean": float(squares.mean()),
        "tuned": asdict(tuned),
    }


def normal_angles(clouds: Sequence[tuple[Scan, np.ndarray]], fields: Sequence[Ellipsoids]) -> tuple[np.ndarray, np.ndarray]:
    """Degrees between estimated and true normals where there are any, and the points' ranges."""
    degrees, ranges = [], []
    for (cloud, normals), field in zip(clouds, fields, strict=True):
        valid = np.isfinite(normals[:, 0])
        degrees.append(angles(field.axes[:, :, 0][valid], normals[valid]))
        ranges.append(np.linalg.norm(cloud.points[valid], axis=1))
    return np.concatenate(degrees), np.concatenate(ranges)


def _judged(
    scans: Sequence[HeldOut], degrees: np.ndarray, ranges: np.ndarray, fields: Sequence[Ellipsoids], matches: Sequence[Matches]
) -> Judged:
    losses, squares = likelihoods(matches, fields)
    trust = _trust(matches, fields)
    distances, covered = {}, {}
    for sigma in _SIGMAS:
        off, share = [], []
        for scan, field in zip(scans, fields, strict=True):
            rng = np.random.default_rng(0)
            off.append(sample_distances(field, sigma, scan.distance, rng).mean)
            share.append(
                coverage(scan.surface, np.concatenate([field.means, field.sample(_PER_POINT, max_sigma=sigma, seed=0)]), _REACH)
            )
        distances[f"{sigma:g}"], covered[f"{sigma:g}"] = float(np.mean(off)), float(np.mean(share))
    return Judged(
        AngleErrors.of(degrees),
        AngleErrors.of(degrees[ranges >= FAR]),
        {label: AngleErrors.of(degrees[inside]) for label, inside in by_band(ranges).items()},
        float(losses.mean()),
        float(np.median(squares)),
        float(squares.mean()),
        float((trust * squares).sum() / trust.sum()),
        distances,
        covered,
    )


def likelihoods(matches: Sequence[Matches], fields: Sequence[Ellipsoids]) -> tuple[np.ndarray, np.ndarray]:
    both = [(m.d, f.covariances[m.rows]) for m, f in zip(matches, fields, strict=True)]
    return np.concatenate([nll(*b) for b in both]), np.concatenate([squared(*b) for b in both])


def _trust(matches: Sequence[Matches], fields: Sequence[Ellipsoids]) -> np.ndarray:
    """How probable each match is right, under the mixture that the likelihood is of."""
    return np.concatenate([right(m.d, f.covariances[m.rows]) for m, f in zip(matches, fields, strict=True)])


def _held_out_report(held_out: dict[str, Any], command: str, config: GeometryBench) -> Report:
    columns = ["sensor, voxel", "points", "POLI", "PCA (k)", "lower", "far POLI", "far PCA", "lower", "radius PCA", "within 10°"]
    columns += ["NLL POLI", "NLL PCA", "NEES mean / believed / median", "off at 0.5 / 1 sigma, cm", "covered at 0.5 / 1 sigma, %"]
    rows = []
    for name, r in held_out.items():
        a, b = r["poli"], r["pca"]
        rows.append(
            [
                name,
                f"{r['points']:.0f}",
                f"{a['all']['rmse']:.1f} / {a['all']['median']:.1f}",
                f"{b['all']['rmse']:.1f} / {r['pca_best_median']:.1f} ({r['pca_k']})",
                _lower(a["all"]["rmse"], b["all"]["rmse"]),
                f"{a['far']['rmse']:.1f}",
                f"{r['pca_far_rmse']:.1f} ({r['pca_far_k']})",
                _lower(a["far"]["rmse"], r["pca_far_rmse"]),
                f"{r['radius_pca']['rmse']:.1f}",
                f"{100 * a['all']['close']:.0f} / {100 * b['all']['close']:.0f}",
                f"{a['nll']:.2f}",
                f"{b['nll']:.2f}",
                f"{a['mean']:.2f} / {a['believed_mean']:.2f} / {a['median']:.2f}",
                _pairs(a["sample_distance"], b["sample_distance"]),
                _pairs(a["covered"], b["covered"]),
            ]
        )
    notes = [
        f"six held-out places, {config.spots} spots each; RMSE / median of normals in degrees, without regard to sign; a voxel's "
        "true normal is the mean of its returns'; leaves and mixed returns have none and are left out",
        f"PCA has the best k of {', '.join(map(str, NEIGHBOURS))} for each figure of each row: for RMSE, for the median, for the "
        f"far band ({FAR:g} m and beyond); radius PCA the best of {', '.join(f'{r:g}' for r in RADII)} voxels",
        "NLL, samples and coverage of PCA: k, scale and floor tuned for the likelihood on these scans; of two, POLI's is first",
        "NLL in nats a match, one match in ten an outlier; NEES: d'(2C)^-1 d, its mean over all matches, its mean weighted by the "
        "probability that a match is right, and its median (3, 3 and 2.37 when calibrated)",
        "off: mean distance of samples from the true surface; covered: share of the visible surface that has a sample within "
        f"{100 * _REACH:.0f} cm",
    ]
    return Report("Geometry of scans in held-out worlds", command, columns, rows, notes, {"configurations": held_out})


def _bands_report(held_out: dict[str, Any], command: str) -> Report:
    rows = []
    for name, r in held_out.items():
        for band in r["poli"]["bands"]:
            a, b = r["poli"]["bands"][band], r["pca"]["bands"][band]
            if a["count"]:
                cells = (f"{m['rmse']:.1f} / {m['median']:.1f} / {100 * m['close']:.0f} %" for m in (a, b))
                rows.append([name, band, str(a["count"]), *cells, _lower(a["rmse"], b["rmse"])])
    columns = ["sensor, voxel", "range", "points", "POLI", "PCA", "RMSE lower"]
    notes = ["RMSE / median in degrees / share within 10 degrees; PCA with the k that is best for the whole configuration"]
    return Report("Normals of scans by range", command, columns, rows, notes, {})


def _real_report(real: dict[str, Any], command: str) -> Report:
    rows = [
        [
            name,
            f"{r['points']:.0f}",
            f"{r['poli_nll']:.2f}",
            f"{r['tuned']['nll']:.2f}",
            f"{r['poli_nll'] - r['tuned']['nll']:+.2f}",
            f"{r['poli_median']:.2f}",
            f"{r['tuned']['median_squared']:.2f}",
            f"k {r['tuned']['k']}, scale {r['tuned']['scale']:.4f}, floor {100 * r['tuned']['floor']:.1f} cm",
        ]
        for name, r in real.items()
    ]
    columns = ["sequence, voxel", "points", "NLL POLI", "NLL PCA", "difference", "median POLI", "median PCA", "PCA tuned to"]
    notes = [
        "NLL in nats a match under 0.9 N(d; 0, 2C) + 0.1 N(d; 0, 1 m^2 I); median of d'(2C)^-1 d (2.37 when calibrated)",
        "PCA has its k, global scale and floor tuned on these very scans; POLI has seen none of them, nor any real scan",
        "poses refined by small_gicp's GICP from the given ones where that lowers the residuals",
    ]
    return Report("Likelihood of real scans", command, columns, rows, notes, {"configurations": real})


def _lower(mine: float, theirs: float) -> str:
    return f"{100 * (1 - mine / theirs):.1f} %"


def _pairs(mine: dict[str, float], theirs: dict[str, float]) -> str:
    return "; ".join(f"{100 * mine[s]:.1f}, {100 * theirs[s]:.1f}" for s in mine)

"""Normals, samples and likelihood of scans by sensor, voxel size and range, against PCA with its best settings.

Example: python -m benchmarks geometry --real sequences
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.data.held_out import HeldOut, held_out_pairs
from benchmarks.data.real_sequences import COMPARED_ON, RealConfiguration, real_configurations, real_pairs
from benchmarks.metrics.likelihood import NEIGHBORS, Matches, nll, right, squared, tuned_pca
from benchmarks.metrics.surface import AngleErrors, angles, coverage, sample_distances
from benchmarks.options import MODEL, REAL, option
from benchmarks.report import Cell, Column, Report, Table
from benchmarks.rivals.pca import POWERS, Setting, weighted_pca
from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.estimation import estimate, pca
from poli.scan import Scan
from poli.viewer import Camera, normal_colors, render_ellipsoids, render_points, write_png
from poli.worlds import SENSORS

MODELS = ("lidar",)

CONFIGURATIONS = (
    *(("vlp16", v) for v in (0.2, 0.5, 1.0)),
    *(("hdl32e", v) for v in (0.2, 0.5, 1.0)),
    *(("hdl64e", v) for v in (1.0, 1.5, 2.0)),
    *(("os1_64", v) for v in (0.5, 1.0)),
    *(("os2_128", v) for v in (1.0, 1.5, 2.0)),
)
RADII = (1.5, 2.5, 4.0, 6.0)  # of PCA with a radius, in voxels
FAR = 25.0  # meters
_SIGMAS = (0.5, 1.0)
_REACH = 0.2  # meters: a sample covers the surface within this distance
_PER_POINT = 8
_PICTURED, _PICTURE_VOXEL = "town", 0.5  # place, meters
_CAMERA = Camera(eye=(-16.0, -3.0, 9.0), target=(10.0, 1.0, -1.0), field_of_view=60.0, width=960, height=600)


_REAL_PAIRS = 8  # per sequence


@dataclass(frozen=True)
class Options:
    model: str = option("lidar", MODEL)
    real: Path | None = option(None, REAL)
    worlds: bool = option(True, "evaluate held-out worlds")
    spots: int = option(2, "spots per held-out place (there are six)", least=1)
    pictures: bool = option(True, "draw raw scan, PCA, POLI and ground truth side by side, and all sensors")


@dataclass(frozen=True)
class Judged:
    """Results of one method in one configuration."""

    all: AngleErrors
    far: AngleErrors
    nll: float
    median: float  # of d'(2C)^-1 d
    mean: float
    believed_mean: float  # weighted by the probability that a match is right, under the mixture
    sample_distance: dict[str, float]  # by sigma: mean, meters
    covered: dict[str, float]  # by sigma


def run(options: Options) -> Iterator[Report]:
    if options.worlds:
        scans = list(held_out_pairs(list(dict.fromkeys(sensor for sensor, _ in CONFIGURATIONS)), options.spots))
        records = [
            {"name": f"{sensor}, {voxel:g} m", **judge([s for s in scans if s.sensor == sensor], voxel, options.model)}
            for sensor, voxel in track(CONFIGURATIONS, "held-out worlds")
        ]
        yield _held_out_report(records, options)
    if options.real is not None:
        yield _real_report(
            [
                {"name": one.label, **judge_real(options.real, one, _REAL_PAIRS, options.model)}
                for one in track(real_configurations(), "real sequences")
            ]
        )


def judge(scans: Sequence[HeldOut], voxel: float, model: str) -> dict[str, Any]:
    """Evaluate POLI, PCA with the k of lowest normal RMSE, weighted PCA with the best k and power, radius PCA with the best radius,
    and PCA tuned for likelihood."""
    if not scans:
        raise InputError("no scans of this sensor")
    clouds = [(s.cloud(voxel), s.normals(voxel)) for s in scans]
    matches = [s.matches(voxel) for s in scans]
    by_k, by_setting = pca_angles(clouds)
    by_radius = {r: normal_angles(clouds, [pca(c, radius=r * voxel) for c, _ in clouds]) for r in RADII}
    best_k = min(by_k, key=lambda k: AngleErrors.of(by_k[k][0]).rmse)
    best_radius = min(by_radius, key=lambda r: AngleErrors.of(by_radius[r][0]).rmse)
    median_k = min(by_k, key=lambda k: AngleErrors.of(by_k[k][0]).median)
    far_k = min(by_k, key=lambda k: _far(*by_k[k]).rmse)
    weighted = min(by_setting, key=lambda s: AngleErrors.of(by_setting[s][0]).rmse)
    weighted_far = min(by_setting, key=lambda s: _far(*by_setting[s]).rmse)
    tuned = tuned_pca(matches)
    poli = [estimate(cloud, model) for cloud, _ in clouds]
    degrees, ranges = normal_angles(clouds, poli)
    rival = [Ellipsoids.trusted(m.points, tuned.covariances(m.points)) for m in matches]
    return {
        "points": float(np.mean([len(c) for c, _ in clouds])),
        "poli": asdict(_judged(scans, degrees, ranges, poli, matches)),
        "pca": asdict(_judged(scans, *by_k[best_k], rival, matches)),
        "pca_k": best_k,
        "pca_far_rmse": _far(*by_k[far_k]).rmse,
        "pca_far_k": far_k,
        "pca_best_median": AngleErrors.of(by_k[median_k][0]).median,
        "weighted": {"all": asdict(AngleErrors.of(by_setting[weighted][0]))},
        "weighted_setting": weighted,
        "weighted_far_rmse": _far(*by_setting[weighted_far]).rmse,
        "weighted_far_setting": weighted_far,
        "weighted_best_median": min(AngleErrors.of(degrees).median for degrees, _ in by_setting.values()),
        "radius_pca": asdict(AngleErrors.of(by_radius[best_radius][0])),
        "radius_voxels": best_radius,
        "tuned": asdict(tuned),
    }


def judge_real(root: Path, configuration: RealConfiguration, count: int, model: str) -> dict[str, Any]:
    pairs = real_pairs(root, configuration, count)
    matches = [pair.matches(configuration.voxel) for pair in pairs]
    tuned = tuned_pca(matches)
    losses, squares = likelihoods(matches, [estimate(m.points, model) for m in matches])
    known = [
        estimate(m.points, model, motion=float(np.linalg.norm(pair.T_q_p[:3, 3]))) for m, pair in zip(matches, pairs, strict=True)
    ]
    known_losses, known_squares = likelihoods(matches, known)
    return {
        "known_nll": float(known_losses.mean()),
        "known_median": float(np.median(known_squares)),
        "moved": float(np.median([np.linalg.norm(pair.T_q_p[:3, 3]) for pair in pairs])),
        "points": float(np.mean([len(m.points) for m in matches])),
        "refined": sum(pair.refined for pair in pairs),
        "pairs": len(pairs),
        "poli_nll": float(losses.mean()),
        "poli_median": float(np.median(squares)),
        "poli_mean": float(squares.mean()),
        "tuned": asdict(tuned),
        "floor_cm": 100 * tuned.floor,
    }


Angles = tuple[np.ndarray, np.ndarray]  # degrees (N,), ranges of the points (N,)


def pca_angles(clouds: Sequence[tuple[Scan, np.ndarray]]) -> tuple[dict[int, Angles], dict[Setting, Angles]]:
    """Angles of PCA's normals by k, and of weighted PCA's by k and power."""
    plain = {k: normal_angles(clouds, [pca(c, k=k) for c, _ in clouds]) for k in NEIGHBORS}
    found: dict[Setting, list[Angles]] = {}
    for cloud, normals in clouds:
        for setting, field in weighted_pca(cloud, NEIGHBORS):
            found.setdefault(setting, []).append(normal_angles([(cloud, normals)], [field]))
    weighted = {s: (np.concatenate([a for a, _ in parts]), np.concatenate([r for _, r in parts])) for s, parts in found.items()}
    return plain, weighted


def _far(degrees: np.ndarray, ranges: np.ndarray) -> AngleErrors:
    return AngleErrors.of(degrees[ranges >= FAR])


def normal_angles(clouds: Sequence[tuple[Scan, np.ndarray]], fields: Sequence[Ellipsoids]) -> Angles:
    """Angles between estimated and known true normals in degrees, and the ranges of the points."""
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
    """Probability that each match is right, under the mixture of the likelihood."""
    return np.concatenate([right(m.d, f.covariances[m.rows]) for m, f in zip(matches, fields, strict=True)])


def _lower(mine: str, theirs: str) -> Cell:
    """Percent by which one value is below another, both given by templates."""
    return lambda r: f"{100 * (1 - _value(mine, r) / _value(theirs, r)):.1f} %"


def _value(path: str, record: Any) -> float:
    for name in path.split("."):
        record = record[name]
    return record


def _pairs(name: str) -> Cell:
    """Values of POLI and PCA at each sigma."""
    return lambda r: "; ".join(f"{100 * r['poli'][name][s]:.1f}, {100 * r['pca'][name][s]:.1f}" for s in r["poli"][name])


_HELD_OUT = Table(
    [Column("sensor, voxel", "{name}")],
    [
        Column("points", "{points:.0f}"),
        Column("POLI", "{poli[all][rmse]:.1f} / {poli[all][median]:.1f}"),
        Column("PCA (k)", "{pca[all][rmse]:.1f} / {pca_best_median:.1f} ({pca_k})"),
        Column("lower", _lower("poli.all.rmse", "pca.all.rmse")),
        Column("weighted PCA (k, power)", "{weighted[all][rmse]:.1f} / {weighted_best_median:.1f} {weighted_setting}"),
        Column("lower", _lower("poli.all.rmse", "weighted.all.rmse")),
        Column("far POLI", "{poli[far][rmse]:.1f}"),
        Column("far PCA", "{pca_far_rmse:.1f} ({pca_far_k})"),
        Column("lower", _lower("poli.far.rmse", "pca_far_rmse")),
        Column("far weighted PCA", "{weighted_far_rmse:.1f} {weighted_far_setting}"),
        Column("lower", _lower("poli.far.rmse", "weighted_far_rmse")),
        Column("radius PCA", "{radius_pca[rmse]:.1f}"),
        Column("within 10°", lambda r: f"{100 * r['poli']['all']['close']:.0f} / {100 * r['pca']['all']['close']:.0f}"),
        Column("NLL POLI", "{poli[nll]:.2f}"),
        Column("NLL PCA", "{pca[nll]:.2f}"),
        Column("NEES mean / believed / median", "{poli[mean]:.2f} / {poli[believed_mean]:.2f} / {poli[median]:.2f}"),
        Column("off at 0.5 / 1 sigma, cm", _pairs("sample_distance")),
        Column("covered at 0.5 / 1 sigma, %", _pairs("covered")),
    ],
)


def _held_out_report(records: list[dict[str, Any]], options: Options) -> Report:
    notes = [
        f"six held-out places, {options.spots} spots each; RMSE / median of normal errors in degrees, ignoring sign; the true "
        "normal of a voxel is the mean over its returns; leaves and mixed returns have none and are skipped",
        f"PCA uses the best k of {', '.join(map(str, NEIGHBORS))} for each value in each row: for RMSE, for the median, for the "
        f"far band ({FAR:g} m and beyond); radius PCA the best of {', '.join(f'{r:g}' for r in RADII)} voxels",
        f"weighted PCA: weights are inverse distances to the power of {', '.join(map(str, POWERS))}; the best of all k and powers "
        "for each value, as for PCA",
        "NLL, samples and coverage of PCA: k, scale and floor tuned for the likelihood on these scans; POLI comes first",
        "NLL in nats per match, one match in ten an outlier; NEES: d'(2C)^-1 d, its mean over all matches, its mean weighted by "
        "the probability that a match is right, and its median (3, 3 and 2.37 when calibrated)",
        "off: mean distance of samples from the true surface; covered: share of the visible surface with a sample within "
        f"{100 * _REACH:.0f} cm",
    ]
    plots = {"geometry_sides": partial(draw_sides, options.model), "geometry_sensors": partial(draw_sensors, options.model)}
    title = "Geometry of scans in held-out worlds"
    return Report("geometry", title, records, _HELD_OUT, notes, plots=plots if options.pictures else {})


_REAL = Table(
    [Column("sequence, voxel", "{name}")],
    [
        Column("points", "{points:.0f}"),
        Column("moved", "{moved:.2f} m"),
        Column("NLL POLI", "{poli_nll:.2f}"),
        Column("NLL PCA", "{tuned[nll]:.2f}"),
        Column("difference", lambda r: f"{r['poli_nll'] - r['tuned']['nll']:+.2f}"),
        Column("median POLI", "{poli_median:.2f}"),
        Column("median PCA", "{tuned[median_squared]:.2f}"),
        Column("distance known", lambda r: f"{r['known_nll'] - r['tuned']['nll']:+.2f} / {r['known_median']:.2f}"),
        Column("PCA tuned to", "k {tuned[k]}, scale {tuned[scale]:.4f}, floor {floor_cm:.1f} cm"),
    ],
)


def _real_report(records: list[dict[str, Any]]) -> Report:
    notes = [
        "NLL in nats per match under 0.9 N(d; 0, 2C) + 0.1 N(d; 0, 1 m^2 I); median of d'(2C)^-1 d (2.37 when calibrated)",
        "PCA has its k, global scale and floor tuned on these scans; POLI was trained on neither these nor any other real scans",
        "poses refined by small_gicp's GICP, starting from the given ones, if that lowers the residuals. POLI has its defaults: "
        "no motion is passed. Distance known: difference and median with `motion`, the distance between the scans in "
        "meters (moved: its median)",
        "not a blind test: the faults of the simulated sensors were measured on all seven sequences, and networks of several sizes "
        f"were compared on {', '.join(COMPARED_ON)}",
        f"POLI is better in {sum(r['poli_nll'] < r['tuned']['nll'] for r in records)} of {len(records)} settings, with the "
        f"distance known in {sum(r['known_nll'] < r['tuned']['nll'] for r in records)}",
    ]
    return Report("geometry_real", "Likelihood of real scans", records, _REAL, notes)


# --- pictures


def draw_sides(model: str, path: Path) -> None:
    """Draw points, PCA, POLI and ground truth of a 16-beam scan."""
    (scan,) = held_out_pairs(["vlp16"], spots=1, places=(_PICTURED,))
    cloud, truth = scan.cloud(_PICTURE_VOXEL), scan.normals(_PICTURE_VOXEL)
    known = np.isfinite(truth[:, 0])
    flat = Ellipsoids.trusted(cloud.points[known].astype(np.float64), _discs(truth[known], 0.12))
    panels = [
        render_points(cloud.points, _CAMERA, np.full((len(cloud), 3), 0.35), pixels=3),
        # PCA's ellipsoids are as wide as their neighborhoods; draw them at about the size of POLI's.
        _ellipsoids(pca(cloud, k=16), 0.5),
        _ellipsoids(estimate(cloud, model), 2.0),
        _ellipsoids(flat, 2.0),
    ]
    _write_grid(path, panels)


def draw_sensors(model: str, path: Path) -> None:
    """Draw POLI's ellipsoids, one panel per sensor."""
    scans = held_out_pairs(list(SENSORS), spots=1, places=(_PICTURED,))
    panels = [_ellipsoids(estimate(scan.cloud(_PICTURE_VOXEL), model), 2.0) for scan in scans]
    _write_grid(path, [*panels, np.full_like(panels[0], 250)])


def _ellipsoids(field: Ellipsoids, radius: float) -> np.ndarray:
    return render_ellipsoids(field, _CAMERA, normal_colors(field.normals), radius)


def _discs(normals: np.ndarray, sigma: float) -> np.ndarray:  # (N, 3) -> (N, 3, 3)
    """Covariances of flat discs that only show a direction."""
    return sigma**2 * (np.eye(3) - 0.99 * normals[:, :, None] * normals[:, None, :])


def _write_grid(path: Path, panels: list[np.ndarray]) -> None:
    rows = [np.concatenate(panels[i : i + 2], axis=1) for i in range(0, len(panels), 2)]
    write_png(path, np.concatenate(rows, axis=0))

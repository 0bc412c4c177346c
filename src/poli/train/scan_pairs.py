"""Training pairs of scans: a voxelized sector of one scan, its partner, a measured pose, and nearest-neighbor matches.

While shapes are trained, the partner of a simulated scan is a survey of the same spot, which is denser than the scan, free of noise
and exactly on the surface. While sizes are trained, it is the sensor's next sweep, equally sparse and noisy, with its occlusions,
mixed returns and moving cars: these are the residuals that covariances must predict. A recorded scan has no survey: its partner is
always a later scan (`tracked_log`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from poli.errors import InputError
from poli.estimation.architecture import AnyArchitecture, motion_inputs
from poli.estimation.ordered_cloud import Viewpoint
from poli.io.datasets import Dataset
from poli.kdtree.tree import KDTree
from poli.scan import Scan
from poli.se3 import measured
from poli.threads import start_worker, thread_count
from poli.train.config import WORLDS_A_SEED, ScanConfig, Stage
from poli.train.grouping import GroupBatch
from poli.train.losses import MatchBatch
from poli.train.network_input import group
from poli.train.object_pairs import PairBatch, joined, probes
from poli.train.tracked_log import TrackedLog, log_of_poses, open_datasets
from poli.voxels import VoxelPick, voxel_downsample, voxel_numbers
from poli.worlds.places import PLACES
from poli.worlds.scan_pairs import VALIDATION_SEEDS, ScanPair, load_pairs, save_pairs, simulated_pairs
from poli.worlds.sweep import true_normals

_VALIDATION_SEED = 7
_FAR, _FINEST = 10.0, 0.4  # voxels shrink in proportion where the median range is below this many meters, down to this fraction
_FEWEST = 128  # points of a voxelized scan; small scans get smaller voxels
_KNOWN = 0.5  # share of the clouds whose distance to the partner is an input of the sizes
_NEXT = 1.0  # meters: the partners of a recorded scan are the next one and later ones this near

Tracker = Callable[[Dataset], TrackedLog]  # runs odometry on a dataset


class ScanSource:
    """Batches drawn from given pairs."""

    def __init__(
        self,
        config: ScanConfig,
        architecture: AnyArchitecture,
        pairs: Sequence[ScanPair],
        held_out: Sequence[ScanPair] = (),
    ) -> None:
        self._config, self._architecture = config, architecture
        self._pairs, self._held_out = pairs, held_out
        if not self._pairs:
            raise InputError("scans: no pair of scans to train on; check scans.worlds and scans.datasets")

    def draw(self, rng: np.random.Generator, stage: Stage, number: int = 0) -> PairBatch:
        chosen = [self._pairs[int(rng.integers(len(self._pairs)))] for _ in range(self._config.clouds)]
        return draw_scans(chosen, self._config, self._architecture, rng, stage)

    def held_out(self, draws: int) -> Iterator[PairBatch]:
        for number, pair in enumerate(self._held_out):
            for draw in range(draws):
                rng = np.random.default_rng([_VALIDATION_SEED, number, draw])
                yield draw_scans([pair], self._config, self._architecture, rng, "sizes")

    @property
    def growth(self) -> None:
        """Sizes go on from where they are: `PairBatch.shrink` accounts for the density of the survey."""
        return None


def recorded_scans(
    config: ScanConfig,
    architecture: AnyArchitecture,
    seed: int,
    beside: Path,
    out: Path,
    made: Callable[[int, int], None],
    track: Tracker | None = None,
) -> ScanSource:
    """Return the source for a configuration: its simulated worlds, recorded into `out`, and its datasets.

    The poses of datasets are those of `track`, or their own if it is None or `config.odometry` is false.
    """
    first, total = seed * WORLDS_A_SEED, config.worlds + config.validation_worlds
    seeds = [first + i for i in range(config.worlds)] + [VALIDATION_SEEDS + i for i in range(config.validation_worlds)]
    recorded = _record(config, seeds, out / "worlds", lambda n: made(n, total))
    pairs = [pair for world in recorded[: config.worlds] for pair in world]
    held_out = [pair for world in recorded[config.worlds :] for pair in world]
    for _, opened in open_datasets(config, beside):
        log = track(opened) if track is not None and config.odometry else log_of_poses(opened, config)
        learned, last = log.pairs(config.recorded, _NEXT)
        pairs, held_out = pairs + learned, held_out + last
    return ScanSource(config, architecture, pairs, held_out)


def draw_scans(
    pairs: Sequence[ScanPair], config: ScanConfig, architecture: AnyArchitecture, rng: np.random.Generator, stage: Stage
) -> PairBatch:
    """Draw the batch of a step from pairs of scans; the same generator state gives the same batch."""
    settling = stage == "sizes"
    clouds = [_cloud(pair, config, rng, settling) for pair in pairs]
    count = min(config.points, *(len(cloud.scan) for cloud in clouds))
    groupings, normals, columns, gammas, motions, around = [], [], [], [], [], []
    for cloud in clouds:
        q = sector(cloud.scan, count, rng)
        points = q.points.astype(np.float64)
        # While shapes are trained, the target of a voxel is a noise-free return on the surface. The mean of a curved patch is off
        # the surface, and noise and mixed returns are errors along the ray: poles and edges would seem thick where they are
        # thinnest. Sizes are trained afterwards and include all of this.
        targets = points if settling else cloud.returns[q.fields["row"]].astype(np.float64)
        motions.append(_known_motion(cloud.pair, rng))
        p, T_true, shrink, gamma = _partner(cloud, config, settling)
        T_measured = T_true
        # Add noise to an exact pose, but not for sizes, which are the distances of matches under the true pose (Proposition 1):
        # under a noisy one, other points are the nearest, and far from the sensor sizes would be too large.
        if gamma is None and not settling:
            T_measured = measured(T_true, config.rotation_noise, config.translation_noise, rng)
        seen = _moved(p, T_measured)
        index = KDTree(seen)
        distance, nearest = index.nearest(1, targets)
        farthest = config.max_distance * max(1.0, cloud.voxel)
        weights = (distance[:, 0] <= farthest).astype(float)
        columns.append((p[nearest[:, 0]], targets, weights, T_measured, T_true, shrink))
        gammas.append(gamma)
        groupings.append(group(points, architecture, _sight(config, rng)))
        if stage == "curvature":
            around.append(probes(index, seen, points, groupings[-1], rng))
        normals.append(q.fields["true"])
    source, target, weight, noisy, true, shrinks = (np.stack(column) for column in zip(*columns, strict=True))
    matches = MatchBatch(*(torch.from_numpy(a) for a in (source, target, weight, noisy)))
    if any(gamma is not None for gamma in gammas):
        added = np.diag([math.radians(config.rotation_noise) ** 2] * 3 + [config.translation_noise**2] * 3)
        matches = replace(matches, gamma=torch.from_numpy(np.stack([added if gamma is None else gamma for gamma in gammas])))
    groups = GroupBatch.of(groupings, motions)
    return PairBatch(groups, 1, matches, true, np.stack(normals), float(weight.mean()), shrinks, joined(around))


@dataclass(frozen=True)
class _Cloud:
    pair: ScanPair
    scan: Scan  # Q, voxelized; fields: `row` of a return in each point's voxel, `true` normals
    returns: np.ndarray  # (R, 3) of the whole scan, noise-free if known
    voxel: float  # meters; 0: not voxelized
    pick: VoxelPick


def _cloud(pair: ScanPair, config: ScanConfig, rng: np.random.Generator, settling: bool) -> _Cloud:
    low, high = math.log(min(config.voxels)), math.log(max(config.voxels))
    # Indoors, where everything is near, scans are voxelized more finely.
    nearer = min(1.0, max(_FINEST, float(np.median(np.linalg.norm(pair.q.points[::16], axis=1))) / _FAR))
    voxel = 0.0 if rng.random() < config.raw_share else nearer * math.exp(rng.uniform(low, high))
    pick: VoxelPick = "mean" if settling or rng.random() < 0.75 else "first"
    scan, rows = Scan(pair.q.points), np.arange(len(pair.q))
    while voxel and len(scan := voxel_downsample(Scan(pair.q.points), voxel, pick)) < min(_FEWEST, len(pair.q)):
        voxel *= 0.7
    if voxel:
        rows = voxel_numbers(pair.q.points, voxel)[1]
    truth = true_normals(pair.q, voxel) if "normal" in pair.q.fields else np.full((len(scan), 3), np.nan)
    returns = pair.q.fields.get("exact", pair.q.points)
    return _Cloud(pair, Scan(scan.points, {"row": rows, "true": truth}), returns, voxel, pick)


def sector(scan: Scan, count: int, rng: np.random.Generator) -> Scan:
    """Return `count` points that are contiguous in azimuth, from a random direction on, at all ranges."""
    if len(scan) <= count:
        return scan
    around = np.arctan2(scan.points[:, 1], scan.points[:, 0])
    order = np.argsort((around - rng.uniform(-np.pi, np.pi)) % (2.0 * np.pi))
    return scan.select(np.sort(order[:count]))


def _partner(
    cloud: _Cloud, config: ScanConfig, settling: bool
) -> tuple[np.ndarray, np.ndarray, float, np.ndarray | None]:  # (P, 3), (4, 4), (6, 6)
    """Return the partner's points, its pose T_cloud_partner, how much denser it is, and the covariance of a measured pose."""
    pair = cloud.pair
    if settling or pair.survey is None:
        return _sweep(cloud), pair.T_q_p, 1.0, pair.covariance
    assert pair.T_q_survey is not None
    fine = min(config.survey_voxel, max(0.5 * cloud.voxel, _FINEST * config.survey_voxel))
    survey = voxel_downsample(pair.survey, fine, "first").points.astype(np.float64)
    return survey, pair.T_q_survey, max(1.0, cloud.voxel / fine), None


def _sweep(cloud: _Cloud) -> np.ndarray:  # (P, 3)
    """Return the next sweep, voxelized as the cloud is."""
    if not cloud.voxel:
        return cloud.pair.p.points.astype(np.float64)
    return voxel_downsample(cloud.pair.p.points.astype(np.float64), cloud.voxel, cloud.pick).points


def _known_motion(pair: ScanPair, rng: np.random.Generator) -> np.ndarray:  # (2,)
    """Draw whether the distance between the scans is known."""
    return motion_inputs(float(np.linalg.norm(pair.T_q_p[:3, 3])) if rng.random() < _KNOWN else None)


def _moved(points: np.ndarray, T: np.ndarray) -> np.ndarray:  # (N, 3), (4, 4)
    return points @ T[:3, :3].T + T[:3, 3]


def _sight(config: ScanConfig, rng: np.random.Generator) -> Viewpoint:
    """Draw the viewpoint: mostly complete, sometimes without sensor position, up direction, or both."""
    viewpoint, up = np.zeros(3), np.array([0.0, 0.0, 1.0])
    draw = rng.random() / max(config.blind, 1e-12)
    return Viewpoint(None if draw < 2.0 else viewpoint, None if 1.0 < draw < 3.0 else up)


def _record(config: ScanConfig, seeds: Sequence[int], keep: Path, made: Callable[[int], None]) -> list[list[ScanPair]]:
    """Record all worlds, one process per core. Recordings are kept on disk for resumed runs."""
    keep.mkdir(parents=True, exist_ok=True)
    kinds = config.places or PLACES
    jobs = [(keep, kinds[seed % len(kinds)], seed, config) for seed in seeds]
    worlds: list[list[ScanPair]] = []
    with ProcessPoolExecutor(thread_count(), get_context("spawn"), start_worker) as pool:
        for pairs in pool.map(_record_world, jobs):
            worlds.append(pairs)
            made(len(worlds))
    return worlds


def _record_world(job: tuple[Path, str, int, ScanConfig]) -> list[ScanPair]:
    keep, kind, seed, config = job
    about = f"exact, faults, fixed rasters; {config.stations} stations, {config.sensors_each} each of {', '.join(config.sensors)}"
    path = keep / f"{kind}_{seed}.npz"
    pairs = load_pairs(path, about)
    if pairs is None:
        truth = ("normal", "label", "mixed") if seed >= VALIDATION_SEEDS else ("exact",)
        made = simulated_pairs(kind, seed, config.stations, config.sensors, config.sensors_each)
        pairs = [ScanPair(pair.q.keep(*truth), pair.p.keep(), pair.T_q_p, pair.survey, pair.T_q_survey) for pair in made]
        save_pairs(path, pairs, about)
    return pairs

"""Pairs of real scans to evaluate covariances: consecutive scans of a sequence, thinned and voxelized, with refined poses.

The folder has the layout of KITTI odometry (`sequences/NAME/velodyne/*.bin`, `poses/NAME.txt`), with poses of the LiDAR itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.metrics.likelihood import Matches, gate_for
from poli.errors import InputError, MissingExtra
from poli.estimation import pca
from poli.io.datasets import Dataset, correct_elevation, dataset, open_kitti
from poli.io.datasets.kitti import Hdl64eReader
from poli.kdtree.tree import KDTree
from poli.se3 import inverse, so3_log
from poli.voxels import voxel_downsample

# The HDL-64E's files have no ring numbers: 64 evenly spaced rows between these elevations are accurate enough for thinning.
_LOWEST, _SPREAD, _BEAMS = -24.8, 26.8, 64  # degrees, degrees, rows

# Pose errors of 5 cm would hide the quality of covariances, so given poses are refined; a refinement that moves far has failed.
_REFINE_VOXEL = 0.4  # meters
_REFINE_REACH = 1.0  # meters
_FARTHEST_SHIFT = 0.3  # meters
_FARTHEST_TURN = 1.0  # degrees


# Networks are compared on the first (`frontier`). The others are not unseen: the faults of sensors were measured on all seven
# sequences, and some of the others were looked at while the sizes were designed.
COMPARED_ON = ("kitti_raw_0013", "nuscenes_0001", "mulran_kaist03")
REPORTED_ON = ("kitti_raw_0005", "kitti_raw_0009", "nuscenes_0006", "robosense_e1r")


@dataclass(frozen=True)
class RealConfiguration:
    """A real sequence thinned to a number of beams, at one voxel size."""

    sequence: str
    voxel: float  # meters
    beams: int | None = None  # of an HDL-64E; None: all
    nearest: float = 0.0  # meters; nearer returns are the car itself

    @property
    def label(self) -> str:
        return f"{self.sequence}{f', {self.beams} beams' if self.beams else ''}, {self.voxel:g} m"


@dataclass(frozen=True, eq=False)
class RealPair:
    q: np.ndarray  # (N, 3), voxelized, in its sensor's frame
    p: np.ndarray  # (M, 3)
    T_q_p: np.ndarray  # (4, 4)
    row: int  # of q's scan in the sequence; p is the next one
    refined: bool  # by GICP; otherwise the given pose

    def matches(self, voxel: float) -> Matches:
        """Matches of nearest points under the pose, at most `gate_for(voxel)` apart."""
        return Matches.of(self.q, self.p, self.T_q_p, gate_for(voxel))


@dataclass(frozen=True, eq=False)
class Refinement:
    T_q_p: np.ndarray  # (4, 4): the refined pose, or the given one if GICP made it worse or moved it far
    refined: bool
    before: float  # meters: median distance of matched points along the normals, under the given pose
    after: float  # meters: the same under GICP's pose, accepted or not
    shift: float  # meters that GICP moved the pose
    turn: float  # degrees


def real_configurations(voxels: Iterable[float] = (0.2, 0.5, 1.0)) -> tuple[RealConfiguration, ...]:
    """The real sequences of the benchmarks, at each voxel size."""
    voxels = tuple(voxels)
    found = []
    for name in (*COMPARED_ON, *REPORTED_ON):
        beams = (16, 32, None) if name.startswith("kitti") else (None,)
        nearest = 2.5 if name.startswith("nuscenes") else 0.0
        found += [RealConfiguration(name, voxel, b, nearest) for b in beams for voxel in voxels]
    return tuple(found)


def real_pairs(root: Path, configuration: RealConfiguration, count: int = 8, first: int = 0) -> list[RealPair]:
    """`count` pairs of consecutive scans, evenly spaced over the sequence from scan `first` on. Poses are refined on the full
    scans, so that all beam counts and voxel sizes of a sequence use the same poses."""
    scans = len(_sequence(root, configuration.sequence, configuration.nearest))
    pairs = []
    for row in (first + step for step in evenly_spaced(scans - 1 - first, count)):
        pose = refined_pose(root, configuration.sequence, row, configuration.nearest)
        q, p = (_prepared(root, configuration, index) for index in (row, row + 1))
        pairs.append(RealPair(q, p, pose.T_q_p, row, pose.refined))
    return pairs


def evenly_spaced(available: int, count: int) -> list[int]:
    """`count` evenly spaced rows from 0 to `available` - 1, including the first and the last; all rows if there are fewer."""
    return [int(row) for row in np.unique(np.linspace(0, available - 1, min(count, available)).round())]


def thin_beams(points: np.ndarray, beams: int) -> np.ndarray:  # (N, 3) -> (M, 3)
    """The returns of every second, fourth, ... row of an HDL-64E, distinguished by elevation."""
    return points[kept_beams(points, beams)]


def kept_beams(points: np.ndarray, beams: int) -> np.ndarray:  # (N, 3) -> (N,) bool
    """Which returns `thin_beams` keeps."""
    if beams not in (8, 16, 32):
        raise InputError(f"beams is {beams}; an HDL-64E can be thinned to 8, 16 or 32 (None keeps all)")
    elevation = np.degrees(np.arctan2(points[:, 2], np.hypot(points[:, 0], points[:, 1])))
    row = np.round((elevation - _LOWEST) * (_BEAMS - 1) / _SPREAD).astype(int)
    return (row >= 0) & (row < _BEAMS) & (row % (_BEAMS // beams) == 0)


@lru_cache(maxsize=256)
def refined_pose(root: Path, sequence: str, row: int, nearest: float = 0.0) -> Refinement:
    """The given pose of scan `row` + 1 in the frame of scan `row`, refined by GICP on the full scans."""
    poses = _sequence(root, sequence, nearest).poses
    assert poses is not None
    T_given = inverse(poses[row]) @ poses[row + 1]
    q, p = (_returns(root, sequence, index, nearest) for index in (row, row + 1))
    return refine(q, p, T_given)


def refine(q: np.ndarray, p: np.ndarray, T_given: np.ndarray) -> Refinement:  # (N, 3), (M, 3), (4, 4)
    """Run GICP from the given pose. The result is accepted only if it lowers the residuals and stays near."""
    try:
        import small_gicp
    except ImportError:
        raise MissingExtra("refining the poses of real sequences", "bench") from None
    found = small_gicp.align(
        q,
        p,
        init_T_target_source=T_given,
        registration_type="GICP",
        downsampling_resolution=_REFINE_VOXEL,
        max_correspondence_distance=_REFINE_REACH,
        max_iterations=50,
        translation_epsilon=1e-4,
        rotation_epsilon=1e-5,
    )
    T_found = np.asarray(found.T_target_source)
    moved = inverse(T_given) @ T_found
    shift, turn = float(np.linalg.norm(moved[:3, 3])), float(np.degrees(np.linalg.norm(so3_log(moved[:3, :3]))))
    before, after = median_residuals(q, p, T_given, T_found)
    good = after <= before and shift < _FARTHEST_SHIFT and turn < _FARTHEST_TURN
    return Refinement(T_found if good else T_given, good, before, after, shift, turn)


def median_residuals(q: np.ndarray, p: np.ndarray, *poses: np.ndarray) -> list[float]:
    """Median residuals of matched points along the normals: within a surface, their distances depend on the beams, not the pose."""
    q, p = (voxel_downsample(points, _REFINE_VOXEL).points for points in (q, p))
    normals = pca(p, k=16).axes[:, :, 0]  # normals of p, so that one index works for all poses
    index = KDTree(p)
    medians = []
    for T_q_p in poses:
        back = inverse(T_q_p)
        moved = q @ back[:3, :3].T + back[:3, 3]
        distances, nearest = index.nearest(1, moved)
        across = np.abs(np.einsum("ni,ni->n", moved - p[nearest[:, 0]], normals[nearest[:, 0]]))
        medians.append(float(np.median(across[distances[:, 0] <= _REFINE_REACH])))
    return medians


@lru_cache(maxsize=8)
def _sequence(root: Path, name: str, nearest: float) -> Dataset:
    sequence = uncorrected_sequence(root, name, nearest)
    if sequence.poses is None or len(sequence) < 2:
        raise InputError(f"{root}: sequence {name} has {len(sequence)} scans; it needs at least two, and a file poses/{name}.txt")
    return sequence


def uncorrected_sequence(root: Path, name: str, nearest: float) -> Dataset:
    """Open a sequence without correcting elevations, by which `thin_beams` distinguishes the rows of the sensor."""
    return dataset("kitti", root, sequence=name, min_range=nearest, correct_elevation=False)


@lru_cache(maxsize=32)
def is_off(root: Path, name: str) -> bool:
    """Whether the elevations of a sequence are those of KITTI's sensor, and need a correction after thinning."""
    reader = open_kitti(root, name).read
    return isinstance(reader, Hdl64eReader) and reader.corrects


def _returns(root: Path, name: str, index: int, nearest: float, beams: int | None = None) -> np.ndarray:  # (N, 3), float64
    points = _sequence(root, name, nearest)[index].clean().points.astype(np.float64)
    if beams is not None:
        points = thin_beams(points, beams)
    return correct_elevation(points) if is_off(root, name) else points


def returns_of(root: Path, configuration: RealConfiguration, index: int) -> np.ndarray:  # (N, 3), float64
    """The returns of a scan, thinned but not voxelized."""
    return _returns(root, configuration.sequence, index, configuration.nearest, configuration.beams)


def _prepared(root: Path, configuration: RealConfiguration, index: int) -> np.ndarray:  # (N, 3)
    return voxel_downsample(returns_of(root, configuration, index), configuration.voxel).points

"""The third step: registration of two scans without an initial guess."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.densification import DensifyConfig
from poli.registration import register
from poli.registration.presets import ScanPreset
from poli.scan import Scan
from poli.se3 import inverse, log
from poli.viewer.demo.surfaces import timed_again
from poli.viewer.demo.town import SENSOR_NAME

TURN = 140.0  # degrees about the vertical: the other scan's heading is unknown


@dataclass(frozen=True)
class PairErrors:
    rotation: float  # degrees
    translation: float  # meters
    certified: bool
    overlap: float  # share of the source on the target's surfaces
    inliers: int
    seconds: float


@dataclass(frozen=True)
class PairFigures:
    apart: float  # meters
    turned: float  # degrees
    poli: PairErrors
    pca: PairErrors  # the same with PCA normals, without samples


@dataclass(frozen=True, eq=False)
class Pair:
    source: Scan  # turned
    target: Scan
    T_target_source: np.ndarray  # (4, 4), estimated


def compare_pair(scan: Scan, other: Scan, T_scan_other: np.ndarray) -> tuple[PairFigures, Pair]:  # (4, 4)
    turn = np.eye(4)
    angle = np.deg2rad(TURN)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    source, T_true = other.transform(turn), T_scan_other @ inverse(turn)
    poli, T_found = _register(source, scan, SENSOR_NAME, T_true)
    rival, _ = _register(source, scan, ScanPreset(DensifyConfig(model="pca", per_point=0)), T_true)
    apart = float(np.linalg.norm(T_scan_other[:3, 3]))
    return PairFigures(apart, TURN, poli, rival), Pair(source, scan, T_found)


def _register(source: Scan, target: Scan, preset: str | ScanPreset, T_true: np.ndarray) -> tuple[PairErrors, np.ndarray]:
    found, seconds = timed_again(lambda: register(source, target, preset=preset))
    error = log(inverse(T_true) @ found.T_target_source)
    rotation, translation = float(np.degrees(np.linalg.norm(error[:3]))), float(np.linalg.norm(error[3:]))
    errors = PairErrors(rotation, translation, found.certified, found.overlap, len(found.inliers), seconds)
    return errors, found.T_target_source

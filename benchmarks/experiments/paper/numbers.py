"""The numbers that the paper prints, to stand beside ours. Its figures are plots without numbers, so they have none here."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.experiments.paper.sequences import HELIPR, KITTI

_COLUMNS = (*HELIPR, *KITTI)


def _row(text: str) -> dict[str, float]:
    return dict(zip(_COLUMNS, map(float, text.split()), strict=True))


# Table I: KISS-ICP on augmented scans, RPE in meters over 100 scans, by method and sequence.
TABLE1: Mapping[str, Mapping[str, float]] = {
    "raw": _row("14.94 8.95 5.13 5.37 9.74 3.83 2.50 14.82 2.98 1.77 2.49 2.19 3.89 1.50 3.44 2.71 2.03"),
    "PCA": _row("14.37 7.82 5.00 5.13 11.21 4.28 9.54 14.37 21.95 4.74 2.18 4.64 16.44 4.90 5.06 5.76 4.20"),
    "TULIP": _row("12.80 15.48 3.52 3.27 6.60 2.59 2.76 6.78 16.79 2.36 1.33 2.57 3.52 1.83 3.75 2.55 2.76"),
    "POLI": _row("3.89 1.92 1.16 1.03 1.77 0.95 2.32 16.24 2.95 1.78 2.01 1.97 3.58 1.30 3.42 2.39 1.66"),
}

# Table II: success of global registration in percent, by dataset, registrar and augmentation.
TABLE2: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("helipr", "KISS-Matcher"): {"raw": 65.33, "PCA": 66.67, "TULIP": 46.67, "POLI": 75.67},
    ("helipr", "TEASER"): {"raw": 74.33, "PCA": 72.33, "TULIP": 61.00, "POLI": 81.67},
    ("kitti", "KISS-Matcher"): {"raw": 54.55, "PCA": 55.64, "TULIP": 65.09, "POLI": 60.73},
    ("kitti", "TEASER"): {"raw": 64.36, "PCA": 63.09, "TULIP": 71.82, "POLI": 79.09},
}

# Table III: the same on KITTI, by number of beams and registrar.
TABLE3: Mapping[tuple[int, str], Mapping[str, float]] = {
    (16, "KISS-Matcher"): {"raw": 54.55, "POLI": 60.73},
    (32, "KISS-Matcher"): {"raw": 87.27, "POLI": 86.18},
    (64, "KISS-Matcher"): {"raw": 94.91, "POLI": 96.91},
    (16, "TEASER"): {"raw": 64.36, "POLI": 79.09},
    (32, "TEASER"): {"raw": 71.82, "POLI": 92.10},
    (64, "TEASER"): {"raw": 97.82, "POLI": 97.64},
}

# Table IV: DCC of HeLiPR, by system and augmentation: RPE over 100 scans and APE, in meters and degrees.
TABLE4: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("FAST-LIO2", "raw"): {"rpe_m": 4.734, "rpe_deg": 5.296, "ape_m": 101.05, "ape_deg": 36.61},
    ("FAST-LIO2", "POLI"): {"rpe_m": 3.200, "rpe_deg": 3.180, "ape_m": 44.79, "ape_deg": 12.80},
    ("GLIM", "raw"): {"rpe_m": 7.006, "rpe_deg": 7.649, "ape_m": 56.94, "ape_deg": 17.23},
    ("GLIM", "POLI"): {"rpe_m": 6.864, "rpe_deg": 7.390, "ape_m": 35.61, "ape_deg": 10.06},
}

# Supplement, the table of likelihoods: GICP on KAIST04, RPE in meters by model and scans apart.
TABLE_S1: Mapping[str, Mapping[int, float]] = {
    "T-Q-C": {1: 0.0385, 50: 1.8846, 100: 5.4912},
    "T-T-Q-C": {1: 0.0186, 50: 0.6747, 100: 2.0053},
}

INFERENCE_MS = 10.0  # milliseconds for 10,000 points on an RTX 4060 Ti
STEP_MS = 73.9  # milliseconds of a training step with about 16,000 points

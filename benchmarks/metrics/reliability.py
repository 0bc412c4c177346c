"""Probabilities of a verdict: fitting them, their errors, and the reliability diagram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.report import pyplot, save_figure

_STEPS = 4000
_EDGES = np.array([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])  # of bins of probability: most are near 0 or 1


def fit_logistic(
    X: np.ndarray, y: np.ndarray, signs: Sequence[float], penalty: float = 1.0
) -> np.ndarray:  # (N, D), (N,) -> (D + 1,)
    """Logistic regression with a constant, whose coefficients have the given signs or are 0.

    `penalty` is that of the squared coefficients of standardized columns, in units of one pair: it keeps them finite where the
    classes can be separated. Projected gradient descent.
    """
    scale = X.std(axis=0) + 1e-12
    columns = np.concatenate([np.ones((len(X), 1)), (X - X.mean(axis=0)) / scale], axis=1)
    allowed = np.array([0, *signs])
    beta = np.zeros(columns.shape[1])
    rate = 4.0 / (np.linalg.norm(columns, 2) ** 2 + 4.0 * penalty)
    for _ in range(_STEPS):
        p = 1.0 / (1.0 + np.exp(-columns @ beta))
        step = columns.T @ (y - p) - penalty * np.where(allowed == 0, 0.0, beta)
        beta = beta + rate * step
        beta = np.where(allowed * beta < 0.0, 0.0, beta)
    slopes = beta[1:] / scale
    return np.concatenate([[beta[0] - slopes @ X.mean(axis=0)], slopes])


def brier(probability: np.ndarray, right: np.ndarray) -> float:  # (N,), (N,)
    """Mean squared error of the probabilities; 0.25 for those who always say one half."""
    return float(((probability - right) ** 2).mean()) if len(right) else float("nan")


def calibration_error(probability: np.ndarray, right: np.ndarray) -> float:  # (N,), (N,)
    """Mean distance of the mean probability to the share of right poses in a bin, weighted by the pairs in it."""
    return float(sum(abs(p - share) * count for p, share, count in reliability(probability, right)) / max(len(right), 1))


def reliability(probability: np.ndarray, right: np.ndarray) -> list[tuple[float, float, int]]:  # (N,), (N,)
    """Mean probability, share of right poses, and number of pairs, by bins of probability; empty ones are left out."""
    which = np.searchsorted(_EDGES[1:-1], probability, side="right")
    chosen = [which == number for number in range(len(_EDGES) - 1) if (which == number).any()]
    return [(float(probability[rows].mean()), float(right[rows].mean()), int(rows.sum())) for rows in chosen]


def draw_reliability(curves: Mapping[str, tuple[np.ndarray, np.ndarray]], path: Path) -> None:
    """Share of right poses against the probability, with standard errors and the number of pairs."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(5.5, 5.0))
    axes.plot([0, 1], [0, 1], "k:", lw=0.8)
    for (name, (probability, right)), color, below in zip(curves.items(), ("#9e9e9e", "#e53935"), (-10, 4), strict=True):
        if not len(right):
            continue
        p, share, count = (np.array(column) for column in zip(*reliability(probability, right), strict=True))
        # Laplace's estimate, so that bins in which all are right have an error, too.
        smooth = (share * count + 1.0) / (count + 2.0)
        axes.errorbar(
            p, share, np.sqrt(smooth * (1.0 - smooth) / (count + 3.0)), fmt="o-", ms=4, capsize=2, label=name, color=color
        )
        for x, y, n in zip(p, share, count, strict=True):
            axes.annotate(str(n), (x, y), textcoords="offset points", xytext=(5, below), fontsize=7, color=color)
    axes.set(xlabel="probability", ylabel="share of right poses", xlim=(-0.02, 1.02), ylim=(-0.02, 1.05))
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=8, loc="lower right")
    figure.tight_layout()
    save_figure(figure, path)
    plt.close(figure)

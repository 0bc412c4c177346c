"""Checks of pictures: complete, of the right size, and not empty."""

from pathlib import Path

import numpy as np
from PIL import Image


def read_picture(path: Path) -> np.ndarray:  # (H, W, 3) uint8
    """Decode the whole file: a truncated or damaged file raises."""
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB"))


def drawn_share(image: np.ndarray) -> float:  # (H, W, 3) uint8
    """The share of pixels that do not have the most frequent color, which is the background."""
    _, counts = np.unique(image.reshape(-1, 3), axis=0, return_counts=True)
    return 1.0 - counts.max() / counts.sum()


def plot_colors(path: Path, least: int = 30) -> set[tuple[int, ...]]:
    """Colors that are not gray and fill at least this many pixels: one per line, bar or marker color of a plot. Axes, grids and
    letters are gray; edges blend with the background, a few pixels each."""
    values, counts = np.unique(read_picture(path).reshape(-1, 3), axis=0, return_counts=True)
    colored = np.ptp(values.astype(int), axis=1) > 20
    return {tuple(color) for color in values[colored & (counts >= least)].tolist()}

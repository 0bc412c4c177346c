"""Progress of a run, and the reason why no points were added to a scan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.estimation.inference import load_model
from poli.estimation.input_checks import complaint_of
from poli.tasks.densify.config import DensifyConfig
from poli.tasks.densify.sampling import LEAST, ellipsoid_places


@dataclass
class Tally:
    scans: int = 0
    kept: int = 0  # of these, finished by an earlier run
    points_in: int = 0
    points_out: int = 0
    unchanged: int = 0  # scans to which no points were added
    why: str = ""  # reason of the first one

    def add(self, points_in: int, points_out: int, why: str = "", kept: bool = False) -> None:
        self.scans += 1
        self.kept += kept
        self.points_in += points_in
        self.points_out += points_out
        self.unchanged += bool(why)
        self.why = self.why or why


def why_nothing(points: np.ndarray, config: DensifyConfig) -> str:  # (N, 3): a scan without samples
    """Return in one sentence why no points were added, without running the network. Empty if the options ask for none."""
    if config.per_point == 0 or (config.max_points is not None and config.max_points <= len(points)):
        return ""
    returns, places = ellipsoid_places(points, config)
    if len(places) < LEAST:
        where = f" in {len(places)} voxels of {config.voxel:g} m" if config.voxel and len(returns) >= LEAST else ""
        remedy = "use smaller voxels" if where else "give more of the cloud"
        return f"no points were added: {len(returns)} returns{where} are too few for ellipsoids, {LEAST} are needed; {remedy}"
    return f"no points were added: {_unfit(places, config)}{_density(places, config)}"


def _unfit(places: np.ndarray, config: DensifyConfig) -> str:  # (E, 3)
    total = len(places)
    far = int((np.einsum("ij,ij->i", places, places) > config.max_range**2).sum()) if config.max_range is not None else 0
    if far == total:
        return f"all {total} ellipsoids are farther than {config.max_range:g} m (max_range)"
    rules = [
        _too_inaccurate(config),
        f"less planar than {config.planarity:g} (planarity)" if config.planarity else "",
        f"in voxels that already have points (sample_voxel {config.sample_voxel:g} m)" if config.sample_voxel else "",
    ]
    others = " or ".join(rule for rule in rules if rule) or "of zero size"
    if not far:
        return f"all {total} ellipsoids are {others}"
    return f"{far} of {total} ellipsoids are farther than {config.max_range:g} m (max_range), the others are {others}"


def _too_inaccurate(config: DensifyConfig) -> str:
    if config.reach is None:
        return f"too inaccurate for samples within {config.max_error:g} m of the surface (max_error)"
    return f"thicker than {config.max_thickness:g} m (max_thickness)" if config.max_thickness is not None else ""


def _density(places: np.ndarray, config: DensifyConfig) -> str:
    complaint = None if config.model == "pca" else complaint_of(load_model(config.model), places)
    return "" if complaint is None else f"; {complaint}"

"""What a run has done so far, and why a scan came back as it was: whoever asked for more points should know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.estimation.density import complaint_of
from poli.estimation.inference import load_model
from poli.tasks.densify.config import DensifyConfig
from poli.tasks.densify.sampling import LEAST, ellipsoid_places


@dataclass
class Tally:
    scans: int = 0
    kept: int = 0  # of them, those that an earlier run had done
    points_in: int = 0
    points_out: int = 0
    unchanged: int = 0  # scans that got no points
    why: str = ""  # the first of them

    def add(self, points_in: int, points_out: int, why: str = "", kept: bool = False) -> None:
        self.scans += 1
        self.kept += kept
        self.points_in += points_in
        self.points_out += points_out
        self.unchanged += bool(why)
        self.why = self.why or why


def why_nothing(points: np.ndarray, config: DensifyConfig) -> str:  # (N, 3): a scan of which no samples were drawn
    """One sentence, without the network; empty where it was asked for."""
    if not config.per_point or (config.most is not None and config.most <= len(points)):
        return ""
    returns, places = ellipsoid_places(points, config)
    if len(places) < LEAST:
        where = f" in {len(places)} voxels of {config.voxel:g} m" if config.voxel and len(returns) >= LEAST else ""
        remedy = "take smaller voxels" if where else "give more of the cloud"
        return f"no points were added: {len(returns)} returns{where} are too few for ellipsoids, {LEAST} are needed; {remedy}"
    return f"no points were added: {_unfit(places, config)}{_density(places, config)}"


def _unfit(places: np.ndarray, config: DensifyConfig) -> str:  # (E, 3)
    total = len(places)
    far = int((np.einsum("ij,ij->i", places, places) > config.farthest**2).sum()) if config.farthest is not None else 0
    if far == total:
        return f"all {total} ellipsoids lie farther than {config.farthest:g} m (farthest)"
    rules = [
        f"thicker than {config.thickest:g} m (thickest)" if config.thickest is not None else "",
        f"less planar than {config.planarity:g} (planarity)" if config.planarity else "",
        f"full of points already (limit {config.limit:g} m)" if config.limit else "",
    ]
    others = " or ".join(rule for rule in rules if rule) or "of no extent"
    if not far:
        return f"all {total} ellipsoids are {others}"
    return f"{far} of {total} ellipsoids lie farther than {config.farthest:g} m (farthest), the others are {others}"


def _density(places: np.ndarray, config: DensifyConfig) -> str:
    complaint = None if config.model == "pca" else complaint_of(load_model(config.model), places)
    return "" if complaint is None else f"; {complaint}"

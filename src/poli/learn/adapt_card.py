"""The card of an adapted model: what it learned from, how, and what that was worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from poli.files.atomic import atomic_path

if TYPE_CHECKING:
    from poli.learn.adapt import Adaptation
    from poli.learn.config import TrainConfig
    from poli.learn.tracked_log import TrackedLog

_CARD = """# {name}

The sizes of the ellipsoids of `{base}`, tuned to one sensor by `poli adapt`; their directions are those of `{base}`.

## Data
{log}: {scans} scans, {meters:.0f} m driven, without ground truth. Poses and their covariances by odometry on ellipsoids against a
map; {learned} pairs of scans were learned from, {held_out} pairs of the log's last fifth were held out.

## Config
T-T-Q-C with the covariance of each pair's pose, one match in ten an outlier; voxels of {low:g} to {high:g} m, sectors of at most
{points} points, learning rate {rate:g}, seed {seed}. All of it is in the metadata of the weights.

## Steps
{steps}, in {minutes:.1f} minutes.

## Calibration
L is multiplied by {calibration:.4f}, which makes the mean of d'(2C)^-1 d three on pairs that were learned from, over matches
weighed by the probability that they are right.

## Results
On the pairs held out, at many voxel sizes:

| | `{base}` | adapted |
|---|---|---|
| NLL, nats a match | {before.nll:.3f} | {after.nll:.3f} |
| mean of d'(2C)^-1 d (3 when calibrated) | {before.nees:.2f} | {after.nees:.2f} |
{verdict}
## License
The weights follow the license of the data above, and that of `{base}`: what the data may not be used for, they may not either.

## Limits
Sizes are those of matches between scans of this log, at its speeds and in places like its own; of another sensor, use `{base}`.
"""


def write_card(path: Path, log: TrackedLog, base: str, settings: TrainConfig, result: Adaptation) -> None:
    assert settings.scans is not None
    low, high = min(settings.scans.voxels), max(settings.scans.voxels)
    verdict = "" if result.kept else "\n**No better than the model that it began from: kept only because that was asked for.**\n"
    text = _CARD.format(
        name=settings.name, base=base, log=log.name, scans=len(log.scans), meters=log.meters, learned=result.learned_pairs,
        held_out=result.held_out_pairs, low=low, high=high, points=settings.scans.points, rate=settings.schedule.learning_rate,
        seed=settings.seed, steps=settings.schedule.steps, minutes=result.minutes,
        calibration=result.calibration, before=result.before, after=result.after, verdict=verdict,
    )  # fmt: skip
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")

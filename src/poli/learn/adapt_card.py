"""The card of an adapted model: data, training and results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from poli.files.atomic import atomic_path

if TYPE_CHECKING:
    from poli.learn.adapt import Adaptation
    from poli.learn.config import TrainConfig
    from poli.learn.tracked_log import TrackedLog

_CARD = """# {name}

`{base}` with the sizes of its ellipsoids tuned to one sensor by `poli adapt`; directions are those of `{base}`.

## Data
{log}: {scans} scans, {meters:.0f} m driven, without ground truth. Poses and their covariances are from odometry on ellipsoids
against a map; {learned} pairs of scans were used for training, {held_out} pairs of the log's last fifth were held out.

## Config
T-T-Q-C with the covariance of each pair's pose, one match in ten an outlier; voxels of {low:g} to {high:g} m, sectors of at most
{points} points, learning rate {rate:g}, seed {seed}. The full configuration is in the metadata of the weights.

## Steps
{steps}, in {minutes:.1f} minutes.

## Calibration
L is multiplied by {calibration:.4f}, which makes the mean of d'(2C)^-1 d three on training pairs, over matches
weighted by the probability that they are correct.

## Results
On the held-out pairs, at many voxel sizes:

| | `{base}` | adapted |
|---|---|---|
| NLL, nats per match | {before.nll:.3f} | {after.nll:.3f} |
| mean of d'(2C)^-1 d (3 when calibrated) | {before.nees:.2f} | {after.nees:.2f} |
{verdict}
## License
The weights are subject to the license of the data above and to that of `{base}`: restrictions on the use of the data apply to them.

## Limits
Sizes are those of matches between scans of this log, at similar speeds and in similar places; for another sensor, use `{base}`.
"""


def write_card(path: Path, log: TrackedLog, base: str, settings: TrainConfig, result: Adaptation) -> None:
    """Write the card of an adapted model."""
    assert settings.scans is not None
    low, high = min(settings.scans.voxels), max(settings.scans.voxels)
    verdict = "" if result.kept else "\n**No better than the base model; written only because of `force`.**\n"
    text = _CARD.format(
        name=settings.name, base=base, log=log.name, scans=len(log.scans), meters=log.meters, learned=result.learned_pairs,
        held_out=result.held_out_pairs, low=low, high=high, points=settings.scans.points, rate=settings.schedule.learning_rate,
        seed=settings.seed, steps=settings.schedule.steps, minutes=result.minutes,
        calibration=result.calibration, before=result.before, after=result.after, verdict=verdict,
    )  # fmt: skip
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")

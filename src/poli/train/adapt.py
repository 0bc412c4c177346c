"""Tune a trained model to one sensor, from a log without ground truth (`tracked_log`).

Only the sizes of the ellipsoids are trained: consecutive scans are equally sparse, and training directions on such partners blurs
them. So normals, and odometry based on them, do not change. The last fifth of the log decides whether the new model is better.
"""

from __future__ import annotations

import math
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from poli.configs import AdaptConfig
from poli.errors import FormatError
from poli.estimation.estimate import load_model
from poli.estimation.model import Model
from poli.io.atomic import atomic_path, refuse_overwriting, sole_user, writing
from poli.train.config import DatasetConfig, ScanConfig, ScheduleConfig, StageConfig, TrainConfig
from poli.train.losses import LossConfig
from poli.train.model_file import calibrated
from poli.train.scan_pairs import ScanSource
from poli.train.tracked_log import TrackedLog
from poli.train.trainer import Listener, train
from poli.train.validate import validate

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
L is multiplied by {calibration:.4f}, which makes the median of d'(2C)^-1 d 2.37 on training pairs, as for a Gaussian.

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


def _write_card(path: Path, log: TrackedLog, base: str, settings: TrainConfig, result: Adaptation) -> None:
    """Write the card of an adapted model."""
    assert settings.scans is not None
    low, high = min(settings.scans.voxels), max(settings.scans.voxels)
    verdict = "" if result.kept else "\n**No better than the base model; written only because of `force`.**\n"
    text = _CARD.format(
        name=settings.name, base=base, log=log.name, scans=len(log.scans), meters=log.meters, learned=result.learned_pairs,
        held_out=result.held_out_pairs, low=low, high=high, points=settings.scans.points, rate=settings.sizes.learning_rate,
        seed=settings.seed, steps=settings.steps, minutes=result.minutes,
        calibration=result.calibration, before=result.before, after=result.after, verdict=verdict,
    )  # fmt: skip
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


_DRAWS = 6  # random sectors and voxel sizes per held-out pair
_CALIBRATING = 24  # pairs at most
_WELL_CALIBRATED = 0.1  # a mean of d'(2C)^-1 d within 10 % of three counts as calibrated
_CONSTANT = 1.5 * math.log(2.0 * math.pi)  # of the density, which the losses omit


@dataclass(frozen=True)
class Judged:
    """Scores of a model on the held-out pairs, at many voxel sizes."""

    nll: float  # nats per match, with one match in ten an outlier
    nees: float  # mean of d'(2C)^-1 d over likely inliers: 3 when calibrated

    def better_than(self, other: Judged) -> bool:
        """Whether the matches are more probable, and calibration is no worse or within 10 %."""
        return self.nll < other.nll and self._off() <= max(other._off(), math.log1p(_WELL_CALIBRATED))

    def _off(self) -> float:
        return abs(math.log(self.nees / 3.0)) if 0.0 < self.nees < math.inf else math.inf


@dataclass(frozen=True)
class Adaptation:
    """The result of `adapt`."""

    before: Judged
    after: Judged
    kept: bool  # whether the new model is better
    model: Path | None  # None if no model was written
    learned_pairs: int
    held_out_pairs: int
    calibration: float
    minutes: float


def adapt(
    log: TrackedLog,
    out: Path,
    base: str = "lidar",
    config: AdaptConfig | None = None,
    listener: Listener | None = None,
    fresh: bool = False,
    force: bool = False,
) -> Adaptation:
    """Tune the model `base` to the log's sensor; if it explains the held-out pairs better, write `out`/model.safetensors and .md.

    With `force` they are written in any case. The training run is in a folder of `out`; an interrupted run is resumed.
    """
    config = config or AdaptConfig()
    check_free(out, fresh, base)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with sole_user(out, f"{out}: another run is adapting a model in this folder; wait for it to end, or choose another folder"):
        start = time.perf_counter()
        target, card = out / "model.safetensors", out / "model.md"
        model = load_model(base)
        model.own_architecture("poli adapt")
        settings, scans = _settings(log, model, base, config)
        learned, held_out = log.pairs(config.pairs, config.reach)
        # Calibrate on training pairs: the held-out pairs must not be used before the comparison.
        calibrating = learned[:: math.ceil(len(learned) / _CALIBRATING)]
        source = ScanSource(scans, model.architecture, learned, calibrating)
        judging = ScanSource(scans, model.architecture, held_out, held_out)
        before = judge(model, judging, settings.loss)
        for old in (target, card):
            old.unlink(missing_ok=True)
        trained = train(settings, out / "run", listener, fresh, source=source)
        after = judge(load_model(trained), judging, settings.loss)
        kept = after.better_than(before)
        result = Adaptation(
            before, after, kept, target if kept or force else None, len(learned), len(held_out), load_model(trained).calibration,
            (time.perf_counter() - start) / 60.0,
        )  # fmt: skip
        if result.model is not None:
            _write_card(card, log, Path(base).name, settings, result)  # without folders, which may be private
            with atomic_path(target) as temporary:
                shutil.copyfile(trained, temporary)
        return result


def check_free(out: Path, fresh: bool, base: str = "") -> None:
    """Raise if a model would be overwritten without `fresh`, or if the base model would be overwritten."""
    target = out / "model.safetensors"
    for written in (target, out / "model.md", *(out / "run" / name for name in ("model.safetensors", "checkpoint.safetensors"))):
        refuse_overwriting(written, Path(base))
    if target.exists() and not fresh:
        raise FormatError(f"{target}: already exists; choose another folder (--out), or replace it (--fresh)")


def judge(model: Model, source: ScanSource, loss: LossConfig) -> Judged:
    """Score a model, with its calibration, on the source's held-out pairs."""
    result = validate(calibrated(model, loss), source.held_out(_DRAWS))
    assert result is not None
    return Judged(result.loss + _CONSTANT, result.nees)


def _settings(log: TrackedLog, model: Model, base: str, config: AdaptConfig) -> tuple[TrainConfig, ScanConfig]:
    # Identifies the pairs, so that a run is not resumed with others.
    about = f"{log.name}: {len(log.scans)} scans, {log.meters:.3f} m; {config.pairs} of {len(log.steps)}, {config.reach:g} m"
    scans = ScanConfig(worlds=0, validation_worlds=0, datasets=(DatasetConfig(about),), voxels=config.voxels, points=config.points)
    loss = LossConfig("ttqc", outliers=0.1, outlier_sigma=1.0)
    settings = TrainConfig(
        f"{model.name}, adapted", config.seed, base, scans=scans, loss=loss, architecture=model.architecture,
        schedule=ScheduleConfig(warmup=min(50, config.steps), validate_every=config.steps), shapes=StageConfig(),
        sizes=StageConfig(config.steps, config.learning_rate, average=0.99),
    )  # fmt: skip
    return settings, scans

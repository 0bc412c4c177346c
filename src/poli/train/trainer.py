"""The training loop (Algorithm 1): exactly resumable, in one process or several.

A run is a folder: `checkpoint.safetensors` (replaced atomically), `log.csv`, `validation.csv`, and at the end `model.safetensors`.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import distributed

from poli.errors import FormatError, InputError, PoliError
from poli.estimation.estimate import load_model
from poli.io.atomic import refuse_overwriting, sole_user, writing
from poli.threads import use_one_thread
from poli.train import checkpoint as checkpoints
from poli.train.checkpoint import CsvLog
from poli.train.config import Stage, TrainConfig, resolve
from poli.train.losses import LossTerms
from poli.train.model_file import calibrate, export_model, import_model
from poli.train.network import Network, TrainingModel
from poli.train.next_pairs import NextSource, next_source
from poli.train.object_pairs import ObjectSource, PairBatch
from poli.train.scan_pairs import Tracker, recorded_scans
from poli.train.validate import Validation, validate

_CHECKPOINT, _MODEL = "checkpoint.safetensors", "model.safetensors"
_PATIENCE = 20  # steps in a row without a usable gradient before the run gives up


class Source(Protocol):
    """A source of training and validation batches. With a fixed set of samples, it has their number, `samples`."""

    def draw(self, rng: np.random.Generator, stage: Stage, number: int) -> PairBatch:
        """Draw a batch; the same generator state and number of the batch in the run give the same batch, in any thread.

        For sizes, partners are as dense as the clouds."""

    def held_out(self, draws: int) -> Iterator[PairBatch]:
        """Yield batches of one cloud with an equally dense partner, of held-out surfaces; always the same ones."""

    @property
    def growth(self) -> float | None:
        """Approximate log growth of squared match distances when partners become as sparse as the clouds.

        None: sizes are about right already and are not reset."""


@dataclass(frozen=True)
class StepReport:
    """A row of `log.csv`: likelihood terms per match, and milliseconds of the parts of the step, in the first process."""

    step: int
    loss: float
    correspondence: float
    pose: float
    nees: float
    certified: float
    skipped: int  # problems without a certificate since the start
    coverage: float
    gradient: float  # norm before clipping
    learning_rate: float
    grouping_ms: float  # sampling, grouping and matching, in parallel to the rest
    network_ms: float
    layer_ms: float
    backward_ms: float


class Listener:
    """Receives the progress of a run. This one does nothing; the command line's draws a progress bar."""

    def shapes(self, made: int, total: int) -> None:
        """So many shapes or worlds are made."""

    def tracked(self, name: str, done: int, total: int) -> None:
        """Odometry has processed so many scans of a sequence."""

    def step(self, report: StepReport, total: int) -> None:
        """A step is done."""

    def validated(self, step: int, result: Validation) -> None:
        """The model was validated after so many steps."""

    def warning(self, text: str) -> None:
        """A step had no usable gradient."""


def train(
    config: TrainConfig,
    out: Path,
    listener: Listener | None = None,
    fresh: bool = False,
    beside: Path | None = None,
    source: Source | None = None,
    track: Tracker | None = None,
    data: Path | None = None,
) -> Path:
    """Train to the end of the schedule, from the folder's checkpoint if it has one, and return the path of the model.

    File names in the configuration are relative to the folder `beside`, by default the current one; those of meshes and datasets
    to `data`, by default the same. Batches are drawn from `source`, by default from the data in the configuration. `track` runs
    odometry on recorded sequences, which use their own poses otherwise.
    """
    beside = beside or Path()
    data = data or beside
    if config.initial:
        initial = Path(resolve(config.initial, beside))
        for name in (_CHECKPOINT, _MODEL):
            refuse_overwriting(out / name, initial)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    other = f"{out}: another training run is using this folder; wait for it to end, or choose another folder"
    # The threads of BLAS wait in loops, which slows the processes down by a third; matrices are small here. The first process locks
    # the folder for all.
    single = threadpool_limits(1, user_api="blas")
    with single, process_group() as processes, sole_user(out, other) if processes.rank == 0 else nullcontext():
        heard = listener if listener is not None and processes.rank == 0 else Listener()
        if source is None and config.fixed_samples:
            fixed = _fixed_source(config, data, heard)
            source, config = fixed, config.in_steps(fixed.samples, processes.world)
        return Run(config, out, heard, fresh, processes, beside, data).finish(source, track)


def _fixed_source(config: TrainConfig, data: Path, listener: Listener) -> ObjectSource | NextSource:
    """Return the source of a configuration with a fixed set of samples."""
    if config.scans is None:
        return ObjectSource(config, data, listener.shapes)
    return next_source(config.scans, config.architecture, config.seed, data)


@dataclass(frozen=True)
class Processes:
    """This process's rank, the number of processes, and its device."""

    rank: int
    world: int
    device: torch.device


@contextmanager
def process_group() -> Iterator[Processes]:
    """Join the process group that the environment describes, as `poli train` and `torchrun` set it."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    if world == 1:
        yield Processes(0, 1, device)
        return
    torch.set_num_threads(1)  # several processes share the cores
    distributed.init_process_group("nccl" if cuda else "gloo")
    try:
        yield Processes(distributed.get_rank(), world, device)
    finally:
        distributed.destroy_process_group()


class Run:
    """A training run in a folder."""

    def __init__(
        self, config: TrainConfig, out: Path, listener: Listener, fresh: bool, processes: Processes, beside: Path,
        data: Path | None = None,
    ) -> None:  # fmt: skip
        self.config, self.out, self.listener, self.beside, self.data = config, out, listener, beside, data or beside
        self.rank, self.world, device = processes.rank, processes.world, processes.device
        out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(config.seed)
        self.model = TrainingModel(config.architecture, config.loss).to(device)
        self.average = {name: t.detach().clone() for name, t in self.model.network.state_dict().items()}
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, weight_decay=config.schedule.weight_decay)  # the rate is set before each step
        self.steps_done = self.skipped = self.unusable = 0
        self.checkpoint_path, self.model_path = out / _CHECKPOINT, out / _MODEL
        if fresh and self.rank == 0:
            for name in (_CHECKPOINT, _MODEL, "curve.png", "log.csv", "validation.csv"):
                (out / name).unlink(missing_ok=True)
        self._wait()
        if self.model_path.exists() and not self.checkpoint_path.exists():
            raise FormatError(
                f"{self.model_path}: already exists, without the checkpoint of its training; choose another folder, or replace it "
                "with --fresh"
            )
        if self.checkpoint_path.exists():
            self._restore(checkpoints.load(self.checkpoint_path))
        elif config.initial:
            import_model(load_model(resolve(config.initial, beside)), self.model.network)
            self.average = {name: t.detach().clone() for name, t in self.model.network.state_dict().items()}
        self.finished = self.steps_done == config.steps and self.model_path.exists()
        self._wait()  # no process writes before all have checked
        self.log = CsvLog(out / "log.csv", [f.name for f in fields(StepReport)], self.steps_done) if self.rank == 0 else None
        columns = ["step", *(f.name for f in fields(Validation))]
        self.validation_log = CsvLog(out / "validation.csv", columns, self.steps_done) if self.rank == 0 else None

    def _calibration(self, averaged: TrainingModel, source: Source) -> float:
        """Return the factor for L. A run of curvature alone keeps that of its initial model, and so its ellipsoids."""
        if self.config.initial and self.config.curvature.steps == self.config.steps:
            return load_model(resolve(self.config.initial, self.beside)).calibration
        return calibrate(averaged, source.held_out(draws=4))

    def finish(self, source: Source | None = None, track: Tracker | None = None) -> Path:
        """Train to the end of the schedule and return the path of the model."""
        schedule, steps = self.config.schedule, self.config.steps
        if self.finished:
            return self.model_path
        if source is None:
            source = self._source(track)
        if self.world > 1:
            use_one_thread()
        # Prepares the next batches during the step. The number of torch's threads is a setting of each thread.
        with ThreadPoolExecutor(schedule.workers, initializer=partial(torch.set_num_threads, torch.get_num_threads())) as ahead:
            coming = iter(range(self.steps_done, steps))
            waiting = deque(ahead.submit(self._batch, source, step) for step in islice(coming, schedule.workers))
            while self.steps_done < steps:
                batch, seconds = waiting.popleft().result()
                waiting += [ahead.submit(self._batch, source, step) for step in islice(coming, 1)]
                self._step(batch, seconds, source.growth)
                last = self.steps_done == steps
                if self.rank == 0 and (last or self.steps_done % schedule.validate_every == 0):
                    self._validate(source)
                if self.rank == 0 and (last or self.steps_done % schedule.checkpoint_every == 0):
                    self._save()
        if self.rank == 0:
            averaged = self._averaged()
            factor = self._calibration(averaged, source)
            export_model(self.model_path, averaged.network, self.config, self.steps_done, factor)
        self._wait()
        return self.model_path

    def _source(self, track: Tracker | None) -> Source:
        """Return the source of the configuration's data. The first process makes what is kept in the folder, the others read it."""
        config = self.config
        if config.scans is None:
            return ObjectSource(config, self.data, self.listener.shapes)
        if self.rank > 0:
            self._wait()
        source = recorded_scans(config.scans, config.architecture, config.seed, self.data, self.out, self.listener.shapes, track)
        if self.rank == 0:
            self._wait()
        return source

    def _wait(self) -> None:
        """Wait for all processes."""
        if self.world > 1:
            distributed.barrier()

    def _batch(self, source: Source, step: int) -> tuple[PairBatch, float]:
        start = time.perf_counter()
        rng = np.random.default_rng([self.config.seed, self.rank, step])
        batch = source.draw(rng, self.config.stage(step)[0], step * self.world + self.rank)
        return batch, time.perf_counter() - start

    def _step(self, batch: PairBatch, grouping: float, growth: float | None) -> None:
        schedule = self.config.schedule
        stage, _, done = self.config.stage(self.steps_done)
        if not done:
            self._begin(stage, growth)
        rate = learning_rate(self.config, self.steps_done)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        terms: LossTerms = self.model(batch, stage=stage)
        start = time.perf_counter()
        self.optimizer.zero_grad()
        terms.total.backward()
        self._share_gradient()
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), schedule.clip or math.inf))
        # The gradient is shared by all processes, so all of them take the same branch.
        if math.isfinite(norm):
            self.optimizer.step()
            self._follow()
            self.unusable = 0
        else:
            self._warn_unusable(norm)
        backward = time.perf_counter() - start
        self.steps_done += 1
        self.skipped += round((1.0 - terms.certified) * len(batch.T_true))
        report = StepReport(
            self.steps_done, terms.total.item(), terms.correspondence, terms.pose, terms.nees, terms.certified, self.skipped,
            batch.coverage, norm, rate, *(1e3 * s for s in (grouping, *self.model.seconds, backward)),
        )  # fmt: skip
        if self.log and (self.steps_done % schedule.log_every == 0 or self.steps_done == self.config.steps):
            self.log.append(asdict(report))
        self.listener.step(report, self.config.steps)

    def _share_gradient(self) -> None:
        """Replace the gradient by its mean over all processes. What is trained depends on the stage alone, so all have the same."""
        if self.world == 1:
            return
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        mean = torch.cat([g.flatten() for g in gradients])
        distributed.all_reduce(mean)
        for gradient, part in zip(gradients, (mean / self.world).split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def _begin(self, stage: Stage, growth: float | None) -> None:
        """Begin a stage with the averaged weights of the last one, and sizes with those that sparser partners need: squared
        distances between points are inversely proportional to the density."""
        self.model.network.load_state_dict(self.average)
        if stage == "sizes" and growth is not None and isinstance(self.model.network, Network):
            bias = self.model.network.maps["size_out"].bias
            with torch.no_grad():
                bias.fill_(growth)  # type: ignore[operator]
                self.average["maps.size_out.bias"].copy_(bias)

    def _follow(self) -> None:
        """Update the moving average of the weights, faster at the start of each stage, when the weights are still poor."""
        _, settings, done = self.config.stage(self.steps_done)
        decay = min(settings.average, (1 + done) / (10 + done))
        with torch.no_grad():
            for name, value in self.model.network.state_dict().items():
                self.average[name].lerp_(value, 1.0 - decay)

    def _warn_unusable(self, norm: float) -> None:
        self.unusable += 1
        self.listener.warning(f"step {self.steps_done + 1}: the gradient's norm is {norm}; this step is skipped")
        if self.unusable >= _PATIENCE:
            stage, settings, _ = self.config.stage(self.steps_done)
            raise PoliError(
                f"training diverged: {_PATIENCE} steps in a row without a finite gradient; lower {stage}.learning_rate "
                f"(now {settings.learning_rate}) or raise architecture.floor; see {self.out / 'log.csv'}"
            )

    def _averaged(self) -> TrainingModel:
        model = TrainingModel(self.config.architecture, self.config.loss)
        model.network.load_state_dict(self.average)
        return model

    def _validate(self, source: Source) -> None:
        result = validate(self._averaged(), source.held_out(draws=1))
        if result is None:
            return
        assert self.validation_log is not None
        self.validation_log.append({"step": self.steps_done, **asdict(result)})
        self.listener.validated(self.steps_done, result)

    def _save(self) -> None:
        tensors = {f"network.{name}": t for name, t in self.model.network.state_dict().items()}
        tensors |= {f"average.{name}": t for name, t in self.average.items()}
        tensors |= checkpoints.optimizer_tensors(self.optimizer)
        state = checkpoints.Checkpoint(self.config, self.steps_done, tensors, self.skipped, self.world)
        checkpoints.save(self.checkpoint_path, state)

    def _restore(self, saved: checkpoints.Checkpoint) -> None:
        if saved.config != self.config:
            raise InputError(
                f"{self.checkpoint_path} was made with another configuration; train into another folder, or start over with --fresh"
            )
        if saved.world != self.world:
            raise InputError(
                f"{self.checkpoint_path} was made by {saved.world} processes, not {self.world}; resume with the same number"
            )
        try:
            # The average first, loaded into the network, which checks names and shapes.
            for part in ("average", "network"):
                self.model.network.load_state_dict(checkpoints.part(saved.tensors, part))
                if part == "average":
                    self.average = {name: t.detach().clone() for name, t in self.model.network.state_dict().items()}
            checkpoints.restore_optimizer(self.optimizer, saved.tensors)
        except (RuntimeError, ValueError) as error:
            raise FormatError(
                f"{self.checkpoint_path}: a damaged checkpoint ({str(error)[:99]}); start over with --fresh"
            ) from None
        self.steps_done, self.skipped = saved.step, saved.skipped


def learning_rate(config: TrainConfig, step: int) -> float:
    """Return the learning rate of a step: in each stage linear warm-up, then cosine decay to the final fraction."""
    _, stage, done = config.stage(step)
    rise = min(1.0, (done + 1) / max(1, config.schedule.warmup))
    fall = 0.5 * (1.0 + math.cos(math.pi * done / stage.steps))
    last = config.schedule.final_fraction
    return stage.learning_rate * rise * (last + (1.0 - last) * fall)

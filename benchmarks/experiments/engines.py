"""Compare our kernels, eager torch, ONNX Runtime and OpenVINO on the same network and clouds.

The runtime was chosen by this measurement. Trees and searches are computed beforehand and not timed: no graph contains them.

Example: python -m benchmarks engines --repeats 21
"""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data.sized_clouds import simulated_cloud
from benchmarks.options import MODEL, option
from benchmarks.report import Report, Table, column_list
from benchmarks.timing import UPRIGHT, medians, same_threads, stage_times, stopwatch
from poli.errors import InputError, MissingExtra
from poli.estimation.arrangement import tree_of
from poli.estimation.grouping import group
from poli.estimation.inference import load_model
from poli.estimation.model import Model
from poli.kdtree.neighborhoods import CELL
from poli.learn.groups import GroupBatch
from poli.learn.model_file import network_of

import torch  # isort: skip  (after poli.learn, which reports a missing extra)

_LEAST_SIZE = 500  # points: the ONNX file needs the full number of neighbors at every level
# Packages required by each, in addition to numpy.
_PACKAGES = {
    "our kernels": ("numba", "llvmlite"),
    "torch": ("torch",),
    "ONNX Runtime": ("onnxruntime",),
    "OpenVINO": ("openvino",),
}


@dataclass(frozen=True, eq=False)
class Cloud:
    """A cloud in leaf order, for local memory access, with the inputs of each engine."""

    points: np.ndarray  # (N, 3)
    batch: GroupBatch  # for the reference network
    inputs: dict[str, np.ndarray]  # for the ONNX file (docs/export.md)

    @staticmethod
    def of(points: np.ndarray, model: Model) -> Cloud:
        architecture = model.architecture
        points = points[tree_of(points - points.mean(axis=0), architecture).leaf_order]
        batch = GroupBatch.of([group(points, architecture, UPRIGHT)])
        index = tree_of(points - points.mean(axis=0), architecture)
        origin = np.zeros(3) if architecture.sensor else points.mean(axis=0)
        inputs = {"points": (points - origin).astype(np.float32)}
        if architecture.sensor:
            inputs["up"] = np.array([0.0, 0.0, 1.0], np.float32)
        rows = index.leaf_order.astype(np.int64)  # positions of a level's points, in leaf order, in its arrays
        for level, (k, _) in enumerate(architecture.searches(len(points))):
            near = index.neighborhoods(k, level, True)
            if level:
                leads = np.empty_like(rows)
                leads[rows] = np.arange(len(rows)) // CELL
                inputs |= {f"centers{level}": rows[::CELL], f"lead{level}": leads}
                rows = np.arange(len(near))
            inputs[f"near{level}"] = np.empty(near.shape, np.int64)
            inputs[f"near{level}"][rows] = rows[near]
        return Cloud(points, batch, inputs)


@dataclass(frozen=True)
class Options:
    model: str = option("lidar", MODEL)
    sizes: tuple[int, ...] = option((10_000, 30_000), "numbers of points, separated by commas")
    repeats: int = option(11, "runs of each; the median is reported", least=1)

    def __post_init__(self) -> None:
        if min(self.sizes) < _LEAST_SIZE:
            raise InputError(f"sizes are {self.sizes}; give at least {_LEAST_SIZE} points each")


_TABLE = Table(
    column_list(N="{N}", engine="{engine}"),
    column_list(
        ms="{ms:.1f}",
        to_our_kernels="{ratio:.2f}",
        largest_deviation="{deviation:.1e}",
        **{"99.9 %": "{deviation_999:.1e}"},
        MB="{installed_mb:.0f}",
    ),
)


def run(options: Options) -> Iterator[Report]:
    before = torch.get_num_threads()
    with same_threads() as threads, tempfile.TemporaryDirectory() as folder:
        try:
            torch.set_num_threads(threads)
            records, missing = _measure(options, threads, Path(folder))
        finally:
            torch.set_num_threads(before)
    notes = [
        f"milliseconds, medians of {options.repeats} runs, {threads} threads for all, engines in turns; model "
        f"{Path(options.model).name}; points drawn from {simulated_cloud(max(options.sizes)).source}",
        "trees and searches are computed beforehand. Our kernels are timed by the stages `network` and `interpolation` of an "
        "estimate, which also compute frames, radii and offsets, as the ONNX file does. Eager torch receives them as input",
        "deviation from the covariances of eager torch, relative to their largest entries: maximum and 99.9th percentile",
        "MB: size of the engine's package, for our kernels numba and llvmlite; OpenVINO computes in float32",
        *missing,
    ]
    engines = dict.fromkeys(r["engine"] for r in records)
    versions = {package: importlib.metadata.version(package) for name in engines for package in _PACKAGES[name]}
    notes.append("versions: " + ", ".join(f"{package} {version}" for package, version in versions.items()))
    summary = {"versions": versions, "threads": threads}
    yield Report("engines", "The trained network on four engines", records, _TABLE, notes, summary)


def _measure(options: Options, threads: int, folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Records by size and engine (milliseconds, ratio to our kernels, deviations from torch), and notes on missing engines."""
    model = load_model(options.model)
    engines, missing = _onnx_engines(model, threads, folder)
    reference = _by_torch(model)
    records = []
    for n in options.sizes:
        cloud = Cloud.of(simulated_cloud(n).points, model)
        work: dict[str, Callable[[], np.ndarray]] = {"torch": partial(reference, cloud)}
        work |= {engine: partial(infer, cloud.inputs) for engine, infer in engines.items()}

        def by_kernels(cloud: Cloud = cloud) -> dict[str, float]:
            stages = stage_times(cloud.points, options.model)
            return {"total": stages["network"] + stages["interpolation"]}

        times = medians({"our kernels": by_kernels} | {engine: stopwatch(w) for engine, w in work.items()}, options.repeats)
        answers = {"our kernels": model.covariances(cloud.points, UPRIGHT)} | {engine: w() for engine, w in work.items()}
        for engine, answer in answers.items():
            ms = times[engine]["total"]
            largest, most = _deviation(answer, answers["torch"])
            found = {"N": n, "engine": engine, "ms": ms, "ratio": ms / times["our kernels"]["total"]}
            installed = sum(_installed_mb(package) for package in _PACKAGES[engine])
            records.append({**found, "deviation": largest, "deviation_999": most, "installed_mb": installed})
    return records, missing


def _by_torch(model: Model) -> Callable[[Cloud], np.ndarray]:
    network = network_of(model.at_motion(None))

    def infer(cloud: Cloud) -> np.ndarray:  # (N, 3, 3)
        with torch.no_grad():
            L, frames = network.sized(cloud.batch)
            factor = model.calibration * frames @ L
            return (factor @ factor.transpose(1, 2)).numpy()

    return infer


def _onnx_engines(
    model: Model, threads: int, folder: Path
) -> tuple[dict[str, Callable[[dict[str, np.ndarray]], np.ndarray]], list[str]]:
    """The installed engines, and a note on each missing one."""
    file = folder / "model.onnx"
    try:
        from poli.learn.onnx_export import export_onnx
    except MissingExtra as error:
        return {}, [f"ONNX Runtime and OpenVINO are skipped: {error}"]
    export_onnx(model, file)
    engines, missing = {}, []
    for name, start in (("ONNX Runtime", _onnx_runtime), ("OpenVINO", _openvino)):
        try:
            engines[name] = start(file, threads)
        except ModuleNotFoundError:
            missing.append(f"{name} is skipped: it is not installed; pip install 'poli[bench]'")
    return engines, missing


def _onnx_runtime(file: Path, threads: int) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(["covariances"], inputs)[0]


def _openvino(file: Path, threads: int) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    import openvino

    settings: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": "f32",  # otherwise it silently uses bfloat16 if the CPU supports it
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = openvino.Core().compile_model(str(file), "CPU", settings).create_infer_request()
    return lambda inputs: request.infer(inputs)["covariances"].copy()


def _deviation(answer: np.ndarray, reference: np.ndarray) -> tuple[float, float]:  # (N, 3, 3) twice
    """Maximum and 99.9th percentile of the deviations of the covariances, each relative to its largest entry."""
    errors = np.abs(answer - reference).max(axis=(1, 2)) / np.abs(reference).max(axis=(1, 2))
    return float(errors.max()), float(np.quantile(errors, 0.999))


def _installed_mb(package: str) -> float:
    files = importlib.metadata.files(package) or []
    return 1e-6 * sum(path.stat().st_size for path in (Path(str(file.locate())) for file in files) if path.is_file())

"""The runtime: equal to the reference network on many clouds, and correct or a clear error on odd ones."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

import poli
from oracles import seeds
from poli.errors import InputError
from poli.estimation.architecture import Architecture
from poli.estimation.estimate import load_model
from poli.estimation.ordered_cloud import Viewpoint, distinct
from poli.estimation.runtime import arithmetic, scale
from poli.estimation.runtime.forward import Layers, forward
from poli.voxels import voxel_downsample
from poli.worlds import SENSORS, scan_of

UP = np.array([0.0, 0.0, 1.0])
VIEWS = [Viewpoint(np.zeros(3), UP), Viewpoint(None, UP), Viewpoint(np.zeros(3), None), Viewpoint()]
SCANS = {"log_scale": True, "sensor": True, "frames": "sensor", "size": 12}
ARCHITECTURES = [
    Architecture(),
    Architecture(neighbors=(12,), edge=(10,), scalars=(9,), reach=12, head=7, attention=5, heads=3, rounds=1),
    Architecture(neighbors=(16, 16, 16), edge=(24, 32, 48), scalars=(32, 48, 64), reach=16, wide=(8, 8), **SCANS),
    Architecture((9, 7, 5, 3), edge=(8, 9, 10, 11), scalars=(8, 13, 16, 20), reach=11, wide=(5,), rounds=3, **SCANS),
]


def cloud(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    points = rng.standard_normal((count, 3))
    if kind == "plane":
        points[:, 2] *= 1e-3
    if kind == "rings":
        angle, ring = rng.uniform(0, 2 * np.pi, count), rng.integers(1, 8, count)
        points = np.stack([5.0 * ring * np.cos(angle), 5.0 * ring * np.sin(angle), -1.8 + 0.02 * points[:, 0]], axis=1)
    if kind == "grid":
        points = rng.permutation(np.stack(np.meshgrid(*[np.arange(13.0)] * 3), axis=-1).reshape(-1, 3))[:count]
    if kind == "duplicates":
        points = points[np.concatenate([np.arange(kept := max(20, count // 5)), rng.integers(0, kept, count)])[:count]]
    return points


def reference(architecture: Architecture, points: np.ndarray, view: Viewpoint, weights: dict[str, np.ndarray]) -> np.ndarray:
    torch = pytest.importorskip("torch")
    from poli.train.grouping import GroupBatch
    from poli.train.network import Network
    from poli.train.network_input import group

    network = Network(architecture)
    network.load_state_dict({f"maps.{name.replace('.', '_', 1)}": torch.from_numpy(w) for name, w in weights.items()})
    places = distinct(points, ordered=not architecture.sensor)
    with torch.no_grad():
        L, frames = network.sized(GroupBatch.of([group(places.of_places(points), architecture, view)]))
        factor = (frames.double() @ L.double()).numpy()
    return places.of_points(factor @ np.swapaxes(factor, 1, 2))


def random_weights(architecture: Architecture, rng: np.random.Generator) -> dict[str, np.ndarray]:
    weights = {}
    for name, (inputs, outputs) in architecture.linear_shapes().items():
        scale = 0.2 if name.startswith(("shape", "attend", "size")) else 1.4
        weights[f"{name}.weight"] = (scale / np.sqrt(inputs) * rng.standard_normal((outputs, inputs))).astype(np.float32)
        weights[f"{name}.bias"] = (0.1 * rng.standard_normal(outputs)).astype(np.float32)
    return weights


def assert_equal(found: np.ndarray, expected: np.ndarray, atol: float = 1e-4) -> None:
    size = np.abs(expected).max(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(found / size, expected / size, atol=atol)


@given(
    seed=seeds,
    kind=st.sampled_from(["volume", "plane", "rings", "grid", "duplicates"]),
    count=st.sampled_from([16, 17, 31, 64, 65, 200, 1000]),
    view=st.sampled_from(VIEWS),
    architecture=st.sampled_from(ARCHITECTURES),
)
def test_the_runtime_equals_the_reference_network(seed, kind, count, view, architecture):
    rng = np.random.default_rng(seed)
    points, weights = cloud(kind, max(count, architecture.least_points), rng), random_weights(architecture, rng)
    found = forward(points, Layers.of(architecture, weights), 1.0, view).covariances
    assert_equal(found, reference(architecture, points, view, weights))


@pytest.mark.parametrize("name", ["lidar", "objects"])
def test_shipped_models_equal_the_reference_network_on_a_scan(name):
    model, points = load_model(name), voxel_downsample(scan_of("campus", SENSORS["hdl32e"], 7), 0.5).points.astype(np.float64)
    plain = model.at_motion(None)
    expected = model.calibration**2 * reference(plain.architecture, points, VIEWS[0], plain.weights)
    # `objects` has never seen a scan: one entry in fifty thousand is off by a little more.
    assert_equal(model.estimate(points, VIEWS[0]).covariances, expected, 2e-4 if name == "objects" else 1e-4)


def test_distances_give_the_sizes_of_the_reference_network():
    pytest.importorskip("torch")
    from poli.train.device import estimate as on_device

    points = voxel_downsample(scan_of("campus", SENSORS["hdl32e"], 7), 0.5).points.astype(np.float64)
    sizes = []
    for motion in (0.0, 0.7, None):
        found = poli.estimate(points, motion=motion).covariances
        assert_equal(found, on_device(points, motion=motion).covariances, 1e-4)
        sizes.append(np.linalg.det(found) ** (1 / 6))
    for one, other in itertools.combinations(sizes, 2):
        assert np.median(np.abs(np.log(one / other))) > 0.01


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.empty((0, 3)), "point"),
        (np.zeros((15, 3)), "at least 16"),
        (np.full((20, 3), np.nan), "finite"),
        (np.full((500, 3), 3.0), "500 points.* 1 distinct"),
    ],
)
def test_clouds_that_cannot_be_estimated_are_named(points, message):
    with pytest.raises(InputError, match=message):
        poli.estimate(points)


def test_a_far_origin_loses_no_precision(rng):
    """Map coordinates are millions of meters; float64 resolves them to a nanometer, and so must the runtime."""
    points, there = rng.standard_normal((2000, 3)) * [30.0, 30.0, 2.0], np.array([1e6, 5e6, 300.0])
    here, moved = poli.estimate(points).covariances, poli.estimate(points + there, viewpoint=there).covariances
    error = np.abs(moved - here).max(axis=(1, 2)) / np.abs(here).max(axis=(1, 2))
    assert np.quantile(error, 0.99) < 1e-4  # a tie between neighbors may be resolved differently
    assert np.median(error) < 1e-6


def test_concurrent_calls_give_the_same_answers(rng):
    clouds = [rng.standard_normal((800 + 100 * i, 3)) * [20.0, 20.0, 1.0] for i in range(6)]
    alone = [poli.estimate(points).covariances for points in clouds]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda points: poli.estimate(points).covariances, clouds * 3))
    for found, expected in zip(together, alone * 3, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc, which only Linux has")
def test_memory_does_not_grow_with_the_number_of_calls(rng):
    points = rng.standard_normal((2000, 3)) * [20.0, 20.0, 1.0]

    def resident() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

    for _ in range(20):
        poli.estimate(points)
    before = resident()
    for _ in range(100):
        poli.estimate(points)
    assert resident() - before < 8.0  # MB; the answers alone would take 15 if they were kept


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("rectified", [False, True])
def test_products_are_correct_with_vectors_of_either_width(lanes: int, rectified: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of sixteen floats are for AVX-512; LLVM splits them for other CPUs, so the code can be tested on any."""
    monkeypatch.setattr("poli.estimation.runtime.arithmetic.widest_vector", lambda: lanes)
    linear = njit(arithmetic.linear.py_func)
    rng = np.random.default_rng(0)
    weight, bias, x = (rng.standard_normal(shape).astype(np.float32) for shape in ((26, 19), 26, (3, 22, arithmetic.TILE)))
    out = np.empty((3, 26, arithmetic.TILE), np.float32)
    linear(weight, x, 2, arithmetic.bias_tile(bias), out, rectified)
    expected = np.einsum("oi,jip->jop", weight, x[:, 2:21]) + bias[:, None]
    np.testing.assert_allclose(out, np.maximum(expected, 0.0) if rectified else expected, atol=1e-5)


def test_points_computed_together_or_alone_get_the_same_bits(rng: np.random.Generator) -> None:
    # LLVM vectorizes these loops for many points. If single numbers were rounded differently, answers would depend on the cloud's
    # size, and on where its arrays are in memory.
    def numbers(rows: int, kind: type = np.float32) -> np.ndarray:
        return rng.uniform(0.1, 1.0, (rows, scale.TILE)).astype(kind)

    values, stretch, frame, axes = numbers(3), numbers(3), numbers(9), numbers(9)
    lengths, most = numbers(2, np.float64)

    def compute(begin: int, filled: int) -> np.ndarray:
        columns = [np.ascontiguousarray(np.roll(array, -begin, axis=1)) for array in (values, stretch, frame, axes)]
        variances, direction, entries = np.empty((3, scale.TILE)), np.empty((3, scale.TILE), np.float32), np.empty((6, scale.TILE))
        scale._limit(begin, filled, lengths, most, *columns[:2], variances)
        scale._compose(filled, columns[2], columns[3], variances, direction, entries)
        return entries[:, :filled]

    alone = np.concatenate([compute(p, 1) for p in range(scale.TILE)], axis=1)
    np.testing.assert_array_equal(compute(0, scale.TILE), alone)

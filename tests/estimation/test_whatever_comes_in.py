"""Any finite cloud, in any unit, order and type: positive definite ellipsoids no larger than the cloud, or a `PoliError`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poli
from oracles import random_covariances, seeds
from poli.ellipsoids import Ellipsoids
from poli.errors import PoliError
from poli.estimation.ordered_cloud import distinct
from poli.kdtree.tree import KDTree
from poli.threads import in_background, run_chunks, thread_count
from poli.voxels import voxel_downsample
from poli.worlds import SENSORS, scan_of

MODELS = ["lidar", "objects"]
pytestmark = pytest.mark.filterwarnings("ignore::poli.errors.DensityWarning", "ignore::poli.errors.ViewpointWarning")


def assert_sound(covariances: np.ndarray, points: np.ndarray) -> None:
    """Finite, positive definite with a margin above rounding, and no standard deviation above the diagonal of the cloud's box."""
    points = np.asarray(points, np.float64)
    extent = np.linalg.norm(np.ptp(points, axis=0))
    assert np.isfinite(covariances).all()
    values = np.linalg.eigvalsh(covariances / np.abs(covariances).max(axis=(1, 2), keepdims=True))
    assert values[:, 0].min() > 1e-9
    assert np.sqrt(np.abs(covariances).max()) <= extent * (1.0 + 1e-6)


def surface(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.standard_normal((count, 3)) * [10.0, 10.0, 1.0]


@pytest.fixture(scope="module")
def rounded_scan() -> np.ndarray:
    """As in KITTI files: rounded to the millimeter, with many equal coordinates, and some duplicate points."""
    points = np.round(voxel_downsample(scan_of("campus", SENSORS["hdl32e"], 7), 0.5).points.astype(np.float64), 3)
    return np.concatenate([points, points[::50]])


@pytest.mark.parametrize("model", MODELS)
def test_duplicates_do_not_change_the_estimate(model, rng):
    places = rng.integers(0, 7, (60, 3)).astype(float)
    points = np.repeat(places, 25, axis=0)
    once = np.unique(places, axis=0)
    found = poli.estimate(points, model).covariances
    assert_sound(found, points)
    rows = [int(np.flatnonzero((once == p).all(axis=1))[0]) for p in points]
    np.testing.assert_array_equal(found, poli.estimate(once, model).covariances[rows])


@pytest.mark.parametrize("model", MODELS)
def test_a_small_distant_cluster_has_no_giant_ellipsoids(model, rng):
    """Dust, or the sensor's housing: without duplicates, but hundreds of times denser than its surroundings."""
    scan = voxel_downsample(scan_of("hall", SENSORS["vlp16"], 3), 0.3).points.astype(np.float64)
    for count, size in ((18, 1e-3), (18, 1e-6), (24, 1e-5), (64, 1e-2), (64, 1e-7), (300, 1e-4)):
        points = np.concatenate([scan, [30.0, 0.0, 0.0] + size * rng.standard_normal((count, 3))])
        found = poli.estimate(points, model).covariances
        assert_sound(found, points)
        inside = np.sqrt(np.linalg.eigvalsh(found[-count:])[:, 2])
        assert np.median(inside) < 3.0 * size * 10.0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scale", [1e-139, 1e-9, 1e12, 1e40, 1e100])
def test_any_unit_is_estimated(model, scale, rng):
    points = surface(rng, 400)
    found = poli.estimate(points * scale, model).covariances
    assert_sound(found, points * scale)
    if model == "objects":  # it does not receive the absolute size
        expected = poli.estimate(points, model).covariances
        error = np.abs(found / scale / scale - expected).max(axis=(1, 2)) / np.abs(expected).max(axis=(1, 2))
        assert np.quantile(error, 0.95) < 1e-4


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e140, 1e300])
def test_units_in_which_squares_are_not_representable_are_refused(scale, rng):
    for door in (poli.estimate, poli.pca, KDTree, lambda points: poli.densify(points, voxel=0.0)):
        with pytest.raises(PoliError):
            door(surface(rng, 100) * scale)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("place", [1e6, 1e15, 1e39, 1e100])
def test_one_far_point_changes_little_for_the_others(model, place, rng):
    points = surface(rng, 600)
    alone, together = poli.estimate(points, model), poli.estimate(np.concatenate([points, [[place, 0.0, 0.0]]]), model)
    assert_sound(together.covariances, np.concatenate([points, [[place, 0.0, 0.0]]]))
    ratio = np.trace(together.covariances[:-1], axis1=1, axis2=2) / np.trace(alone.covariances, axis1=1, axis2=2)
    assert 0.8 < np.median(ratio) < 1.25


@given(seed=seeds, kind=st.sampled_from([np.uint8, np.int16, np.int64, np.float16, np.float32]), span=st.sampled_from([3, 5, 100]))
@settings(max_examples=12)
def test_numbers_of_any_type_are_coordinates(seed, kind, span):
    points = np.random.default_rng(seed).integers(0, span, (300, 3)).astype(kind)
    for model in MODELS:
        if len(np.unique(points, axis=0)) >= 16:
            assert_sound(poli.estimate(points, model).covariances, points)
    field = poli.pca(points, k=8)
    assert np.isfinite(field.covariances).all()
    assert (field.eigenvalues[:, 0] >= -1e-12 * field.eigenvalues[:, 2]).all()


@pytest.mark.parametrize("model", MODELS)
def test_the_order_of_the_points_does_not_matter(model, rounded_scan):
    shuffled = np.random.default_rng(3).permutation(len(rounded_scan))
    expected = poli.estimate(rounded_scan, model).covariances
    np.testing.assert_array_equal(poli.estimate(rounded_scan[shuffled], model).covariances, expected[shuffled])


def test_fields_of_a_voxel_do_not_depend_on_the_order(rng):
    points = np.round(rng.uniform(0.0, 10.0, (2000, 3)), 1)
    scan = poli.Scan(np.unique(points, axis=0), {"ring": np.arange(len(np.unique(points, axis=0)))})
    shuffled = scan.select(rng.permutation(len(scan)))
    first, second = voxel_downsample(scan, 1.0), voxel_downsample(shuffled, 1.0)
    a, b = (np.lexsort(np.floor(s.points).T) for s in (first, second))
    np.testing.assert_allclose(first.points[a], second.points[b], atol=1e-12)
    np.testing.assert_array_equal(first.fields["ring"][a], second.fields["ring"][b])


@given(seed=seeds, count=st.sampled_from([1, 5, 300]), span=st.sampled_from([1, 3, 1000]), ordered=st.booleans())
def test_distinct_points(seed, count, span, ordered):
    rng = np.random.default_rng(seed)
    points = rng.integers(-span, span, (count, 3)) * np.where(rng.random((count, 3)) < 0.5, 1.0, -1.0)  # including -0.0
    places = distinct(points, ordered)
    kept = places.of_places(points)
    assert len(np.unique(kept, axis=0)) == len(kept) == len(np.unique(points, axis=0))
    np.testing.assert_array_equal(places.of_points(kept), points)
    if ordered:
        np.testing.assert_array_equal(kept, np.unique(points, axis=0))


@pytest.mark.parametrize("model", MODELS)
def test_any_number_of_threads_gives_the_same_answer(model, rounded_scan, monkeypatch):
    """Nine to the ninth is capped: no machine has the memory for that many."""
    answers, nearest = [], []
    for threads in ("1", "2", "8", str(9**9)):
        monkeypatch.setenv("POLI_NUM_THREADS", threads)
        answers.append(poli.estimate(rounded_scan, model).covariances)
        nearest.append(KDTree(rounded_scan).nearest(12)[1])
    for answer, found in zip(answers, nearest, strict=True):
        np.testing.assert_array_equal(answer, answers[0])
        np.testing.assert_array_equal(found, nearest[0])
    assert thread_count() <= 4096


@pytest.mark.parametrize("threads", ["1", "2"])
def test_work_in_the_background_is_done_and_its_errors_are_raised(monkeypatch, threads):
    monkeypatch.setenv("POLI_NUM_THREADS", threads)
    done: list[int] = []
    work = in_background(lambda: done.append(1))
    run_chunks(lambda begin, end: done.extend(range(begin, end)), 100, smallest=1)  # has a thread less, but is not stuck
    work.result()
    assert len(done) == 101
    with pytest.raises(ZeroDivisionError):
        in_background(lambda: done.append(1 // 0)).result()


def test_distances_scale_with_the_field(rng):
    """Distances in fields whose squared variances are not representable in float64."""
    means, shapes = rng.standard_normal((6, 3)), random_covariances(rng, 6)
    expected = Ellipsoids(means, shapes).mahalanobis(means[::-1])
    for scale in (1e-140, 1e120):
        field = Ellipsoids(means * scale, shapes * scale * scale)
        np.testing.assert_allclose(field.mahalanobis(field.means[::-1]), expected, rtol=1e-9)

"""`poli.densify`: originals, samples, and the effect of the options."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import poli
from poli.densification import DensifyConfig, densify_records
from poli.densification.samples import evenly
from poli.densification.sampling import draw_samples
from poli.errors import FormatError, InputError
from poli.scan import Scan
from poli.voxels import voxel_numbers
from tiny_scans import room

EVERYWHERE = {"per_point": 7, "max_sigma": 1.0, "flat": False, "max_thickness": None}  # as in the paper


@pytest.fixture(scope="module")
def scan():
    return room()


def assert_originals_first(dense, scan):
    np.testing.assert_array_equal(dense.points[: len(scan)], scan.points)
    assert dense.points.dtype == scan.points.dtype
    assert list(dense.fields) == list(scan.fields)
    for name, values in scan.fields.items():
        assert dense.fields[name].dtype == values.dtype
        np.testing.assert_array_equal(dense.fields[name][: len(scan)], values)


@pytest.mark.parametrize("model", ["lidar", "pca"])
@pytest.mark.parametrize("voxel", [0.0, 0.2, 1.5])
def test_originals_first_then_samples_with_their_parents_fields(scan, model, voxel):
    dense = poli.densify(scan, model=model, voxel=voxel, **EVERYWHERE)
    assert_originals_first(dense, scan)
    assert dense.stamp == scan.stamp
    parents = draw_samples(scan.points, DensifyConfig(model=model, voxel=voxel, **EVERYWHERE)).parents
    assert len(dense) == len(scan) + len(parents)
    assert len(parents) % 7 == 0
    for name, values in scan.fields.items():
        np.testing.assert_array_equal(dense.fields[name][len(scan) :], values[parents])


@pytest.mark.parametrize("max_sigma", [0.0, 0.5, 2.0])
def test_samples_lie_within_the_sigma_limit_of_their_parents(scan, max_sigma):
    """One ellipsoid per point: the samples are uniform, so the farthest comes close to the limit."""
    dense = poli.densify(scan.points.astype(np.float64), voxel=0.0, **(EVERYWHERE | {"max_sigma": max_sigma}))
    samples = dense.points[len(scan) :].reshape(len(scan), 7, 3)
    distance = poli.estimate(scan).mahalanobis(samples)
    assert distance.max() <= max_sigma * (1 + 1e-6)
    assert distance.max() >= 0.95 * max_sigma
    np.testing.assert_allclose((distance**3).mean(), max_sigma**3 / 2, rtol=0.05)


def test_a_voxel_shares_one_ellipsoid_among_its_returns(scan):
    """Voxels of 1.5 m: seven samples each, drawn from its returns in turn, within the sigma of the voxel's ellipsoid."""
    points = scan.points.astype(np.float64)
    samples = draw_samples(points, DensifyConfig(voxel=1.5, max_range=None, **EVERYWHERE))
    voxels, first = voxel_numbers(points, 1.5)
    means = np.stack([points[voxels == v].mean(axis=0) for v in range(len(first))])
    field = poli.estimate(means)
    assert len(samples.parents) == 7 * len(first)
    np.testing.assert_array_equal(voxels[samples.parents], np.repeat(np.arange(len(first)), 7))
    for v in range(len(first)):
        used = np.bincount(samples.parents[7 * v : 7 * v + 7], minlength=len(points))[voxels == v]
        assert used.max() - used.min() <= 1  # evenly
    offsets = (samples.points - points[samples.parents]).reshape(len(first), 7, 3)
    assert field.mahalanobis(field.means[:, None] + offsets).max() <= 1 + 1e-6


def test_the_same_scan_gives_the_same_samples_and_another_scan_others(scan):
    once, again = poli.densify(scan), poli.densify(scan)
    np.testing.assert_array_equal(once.points, again.points)
    assert not np.array_equal(poli.densify(scan, seed=1).points, once.points)
    a = draw_samples(scan.points, DensifyConfig(voxel=0.0, **EVERYWHERE))
    b = draw_samples(scan.points + np.float32(0.5), DensifyConfig(voxel=0.0, **EVERYWHERE))
    assert np.abs((a.points - scan.points[a.parents]) - (b.points - scan.points[b.parents] - 0.5)).max() > 0.01


@pytest.mark.parametrize("model", ["lidar", "pca"])
def test_threads_do_not_matter(monkeypatch, model):
    answers = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("POLI_NUM_THREADS", threads)
        answers.append(poli.densify(room(3000), model=model).points)
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_array_equal(answers[0], answers[2])


def test_invalid_rows_are_kept_and_have_no_samples(scan):
    points = scan.points.copy()
    points[[3, 50]] = np.nan
    points[7] = 0.0
    dense = poli.densify(Scan(points, scan.fields))
    np.testing.assert_array_equal(dense.points[: len(points)], points)
    assert np.isfinite(dense.points[len(points) :]).all()
    assert not {3, 7, 50} & set(draw_samples(points, DensifyConfig()).parents)


def test_few_returns_have_no_samples():
    for count in (0, 1, 15):
        assert len(poli.densify(room(count))) == count
    assert len(poli.densify(room(16), voxel=0.0, **EVERYWHERE)) == 16 * 8
    assert len(poli.densify(np.zeros((100, 3)))) == 100
    assert len(poli.densify(np.full((100, 3), np.nan))) == 100
    assert len(poli.densify(np.ones((100, 3)), voxel=0.0, **EVERYWHERE)) == 100  # all in one place


def test_equal_values_of_any_type_give_the_same_samples(scan):
    """float32, float64 and big-endian numbers of equal value; a scan not representable in float32 gets different samples."""
    narrow = np.asarray(scan.points, np.float32)
    samples = draw_samples(narrow, DensifyConfig()).points
    assert len(samples) > 100
    for other in (narrow.astype(np.float64), narrow.astype(">f4"), narrow.astype(">f8")):
        np.testing.assert_array_equal(draw_samples(other, DensifyConfig()).points, samples)
    moved = draw_samples(narrow.astype(np.float64) + 1e-12, DensifyConfig()).points
    assert len(moved) != len(samples) or np.abs(moved - samples).max() > 1e-3


def test_only_suitable_ellipsoids_are_sampled(scan):
    field = poli.estimate(scan)
    options = {"voxel": 0.0, "planarity": 0.5, "max_range": 6.0, "max_thickness": 0.2, "max_sigma": 12.0}
    worth = (field.planarity >= 0.5) & (np.linalg.norm(field.means, axis=1) <= 6.0) & (field.scales[:, 0] <= 0.2)
    assert 0 < worth.sum() < len(scan)
    parents = draw_samples(scan.points, DensifyConfig(**options)).parents
    np.testing.assert_array_equal(np.unique(parents), np.flatnonzero(worth))
    assert len(poli.densify(scan, max_range=0.1)) == len(scan)


def test_a_cap_drops_samplesevenly(scan):
    whole = draw_samples(scan.points, DensifyConfig(voxel=0.0, **EVERYWHERE))
    for most in (1, len(scan), len(scan) + 1, 700, 1000, 2399, 2400, 10_000):
        dense = poli.densify(scan, voxel=0.0, max_points=most, **EVERYWHERE)
        assert len(dense) == max(len(scan), min(most, 8 * len(scan)))
        assert_originals_first(dense, scan)
        children = np.bincount(
            draw_samples(scan.points, DensifyConfig(voxel=0.0, max_points=most, **EVERYWHERE)).parents, minlength=len(scan)
        )
        assert children.max() - children.min() <= 1
    some = draw_samples(scan.points, DensifyConfig(voxel=0.0, max_points=1000, **EVERYWHERE))
    assert {row.tobytes() for row in some.points} <= {row.tobytes() for row in whole.points}


@given(st.lists(st.integers(0, 6), max_size=60), st.integers(0, 70))
def test_evenly_takes_early_rounds_first(turns, budget):
    turns = np.array(turns, int)
    rows = evenly(turns, budget)
    assert len(rows) == min(budget, len(turns))
    assert (np.diff(rows) > 0).all()
    left = np.delete(turns, rows)
    assert not len(left) or not len(rows) or turns[rows].max() <= left.min()


def test_a_voxel_limit_fills_only_empty_voxels(scan):
    dense = poli.densify(scan, max_sigma=3.0, sample_voxel=0.25)
    assert len(scan) < len(dense) < len(poli.densify(scan, max_sigma=3.0))
    voxels, first = voxel_numbers(dense.points.astype(np.float64), 0.25)
    # Float32 may push a sample across the border of its voxel; in float64 there is exactly one.
    assert (np.bincount(voxels[len(scan) :]) <= 2).all()
    samples = draw_samples(scan.points, DensifyConfig(max_sigma=3.0, sample_voxel=0.25))
    together = np.concatenate([scan.points.astype(np.float64), samples.points])
    voxels, first = voxel_numbers(together, 0.25)
    np.testing.assert_array_equal(first[voxels[len(scan) :]], np.arange(len(scan), len(together)))
    assert len(poli.densify(scan, max_sigma=3.0, sample_voxel=0.25, max_points=len(scan) + 50)) == len(scan) + 50


def test_records_keep_every_byte():
    """Big-endian doubles, gaps between the fields, and a field that shares bytes with another."""
    layout = np.dtype(
        {"names": ["x", "y", "z", "tag", "word"], "formats": [">f8", ">f8", ">f8", "u1", "<u4"], "offsets": [2, 10, 18, 27, 26],
         "itemsize": 33}
    )  # fmt: skip
    source = room()
    records = np.frombuffer(np.random.default_rng(0).bytes(33 * len(source)), layout).copy()
    for column, axis in enumerate("xyz"):
        records[axis] = source.points[:, column]
    dense, why = densify_records(records, DensifyConfig(voxel=0.0, **EVERYWHERE), "here")
    assert not why
    rows, before = (r.view(np.uint8).reshape(-1, 33) for r in (dense, records))
    np.testing.assert_array_equal(rows[: len(records)], before)
    np.testing.assert_array_equal(rows[len(records) :, 26:], np.repeat(before[:, 26:], 7, axis=0))
    np.testing.assert_array_equal(rows[len(records) :, :2], np.repeat(before[:, :2], 7, axis=0))
    expected = draw_samples(source.points.astype(np.float64), DensifyConfig(voxel=0.0, **EVERYWHERE))
    np.testing.assert_array_equal(np.stack([dense[a][len(records) :] for a in "xyz"], axis=1), expected.points)
    with pytest.raises(FormatError, match="here: no field 'z'; the fields are x, y"):
        densify_records(np.zeros(20, [("x", "f4"), ("y", "f4")]), DensifyConfig(), "here")
    with pytest.raises(FormatError, match="field 'x' is of type int16; only floats"):
        densify_records(np.zeros(20, [("x", "i2"), ("y", "f4"), ("z", "f4")]), DensifyConfig(), "here")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per_point": 1.5}, "per_point is 1.5"),
        ({"max_sigma": -1.0}, "max_sigma is -1.0"),
        ({"planarity": 1.1}, "planarity is 1.1"),
        ({"max_range": -1.0}, "max_range is -1.0; expected a number of meters of at least 0, or None"),
        ({"sample_voxel": float("nan")}, "sample_voxel is nan"),
        ({"model": "teapot"}, "model is 'teapot'; expected one of lidar, objects"),
        ({"model": None}, "model is None"),
        ({"voxel": 1e-6}, "larger voxels or crop it"),
        ({"density": 3}, "no option 'density'; the options are per_point, max_sigma"),
        ({"max_error": 0.0}, "max_error is 0.0"),
        ({"rings": 1}, "rings is 1"),
        ({"rings": 257}, "at most 256"),
        ({"rings": 64, "max_sigma": 4.0}, "rings is 64"),
        ({"purpose": "maps"}, "purpose is 'maps'; expected one of odometry, features"),
        ({"purpose": "features", "max_error": 0.1}, "max_error is 0.1; purpose 'features' chooses it"),
    ],
)
def test_bad_options_are_named(scan, options, message):
    with pytest.raises(InputError, match=message):
        poli.densify(scan, **options)


def test_a_configuration_and_changes_to_it(scan):
    config = DensifyConfig(per_point=2, max_sigma=12.0, voxel=0.0, max_thickness=None)
    assert len(poli.densify(scan, config)) == 3 * len(scan)
    assert len(poli.densify(scan, config, per_point=1)) == 2 * len(scan)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 3


def test_flat_samples_lie_in_the_surface_of_their_ellipsoid(scan):
    points = scan.points.astype(np.float64)
    samples = draw_samples(points, DensifyConfig(voxel=0.0, per_point=5, max_sigma=4.0, max_thickness=None))
    field = poli.estimate(points)
    offsets = samples.points - points[samples.parents]
    np.testing.assert_array_equal(samples.ellipsoids, samples.parents)
    np.testing.assert_allclose(np.einsum("ni,ni->n", offsets, field.normals[samples.ellipsoids]), 0.0, atol=1e-9)
    shared = draw_samples(points, DensifyConfig(voxel=1.5, max_sigma=12.0, max_range=None, max_thickness=None))
    means = np.stack([points[voxel_numbers(points, 1.5)[0] == v].mean(axis=0) for v in range(shared.ellipsoids.max() + 1)])
    above = shared.points - means[shared.ellipsoids]
    np.testing.assert_allclose(np.einsum("ni,ni->n", above, poli.estimate(means).normals[shared.ellipsoids]), 0.0, atol=1e-9)
    distance = field.mahalanobis((field.means[samples.ellipsoids] + offsets).reshape(-1, 5, 3))
    assert 0.9 * 4.0 <= distance.max() <= 4.0 * (1 + 1e-6)

"""The benchmarks of denser scans, on drives small enough for a test, and the rings and interpolated rows that they need."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.cache import Cache
from benchmarks.data.drives import RealSequence, SimulatedDrive
from benchmarks.data.rings import elevations_of, nearest_ring, ring_elevations, thin_rings
from benchmarks.experiments import density
from benchmarks.experiments.augmentation import Options, change, long_frames, run
from benchmarks.report import publish
from benchmarks.rivals.augmentations import AUGMENTATIONS, POLI, RAW, contestant, densified, raw
from benchmarks.rivals.odometry import run_kiss
from benchmarks.rivals.range_interpolation import RangeInterpolation, interpolate
from pictures import plot_colors
from poli.data.datasets import write_kitti
from poli.errors import InputError
from poli.scan import Scan
from poli.tasks.densify import DensifyConfig

COUNT = 4
ELEVATIONS = np.linspace(-15.0, 15.0, 16)


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Options:
    folder = tmp_path_factory.mktemp("augmentation")
    beams = folder / "small.txt"
    beams.write_text("# steps 300\n" + "\n".join(str(e) for e in ELEVATIONS))
    return Options(
        per_point=2, sensor=str(beams), places=("town",), scans=COUNT, drives=folder / "drives",
        runs=folder / "runs", processes=1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def town(bench):
    bench.sources()
    return SimulatedDrive(bench.sensor, "town", COUNT, bench.drives).open()


def rays(elevations, azimuths) -> np.ndarray:  # degrees -> (N, 3)
    up, around = (np.radians(values).ravel() for values in np.meshgrid(elevations, azimuths))
    return np.stack([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)], axis=1)


def test_the_report_has_its_metrics_and_a_second_run_reads_the_cache(bench, town, tmp_path, monkeypatch):
    for package in ("kiss_icp", "genz_icp", "yaml", "matplotlib", "small_gicp"):
        pytest.importorskip(package)
    monkeypatch.setenv("POLI_NUM_THREADS", "1")
    write_kitti(tmp_path / "real", "street", [Scan(points) for points in town.scans], town.poses)
    street = RealSequence("street", "os1_64", 10.0, (1.0,), beams=32)
    with_real = replace(bench, seeds=1, real=tmp_path / "real", sequences=(street,))
    (report,) = run(with_real)
    publish(report, tmp_path)
    records = json.loads((tmp_path / "augmentation.json").read_text(), parse_constant=pytest.fail)["records"]  # NaN is not JSON
    assert len(plot_colors(tmp_path / "augmentation.png")) >= 3
    assert len(records) == 2 * 2 * len(AUGMENTATIONS)  # drives, systems
    long = {r["augmentation"]: r["long"] for r in records if (r["system"], r["real"]) == ("KISS-ICP", False)}
    assert set(long) == set(AUGMENTATIONS)
    assert len(set(long.values())) == len(AUGMENTATIONS)  # every method made different scans
    assert 0.0 < long[POLI] < 1.0
    refined = {(r["system"], r["augmentation"]): r["refined"] for r in records if r["real"]}
    assert refined["GenZ-ICP", RAW] > 0.0
    columns, rows = report.cells
    row = dict(zip(columns, next(row for row in rows if row[:2] == ["KISS-ICP", "**simulated, mean**"]), strict=True))
    assert row["change"] == f"{100 * (long[POLI] / long[RAW] - 1):+.1f} %"
    assert row[min(long, key=long.get)].startswith("**")

    monkeypatch.setattr("benchmarks.rivals.augmentations._run_augmented", refuse)
    monkeypatch.setattr("benchmarks.cache.refined_pose", refuse)
    assert next(run(with_real)).cells == report.cells


def refuse(*_args, **_kwargs):
    raise AssertionError("it was to be read, not run")


def test_density_has_a_row_for_every_method(bench, tmp_path, monkeypatch):
    for package in ("kiss_icp", "matplotlib"):
        pytest.importorskip(package)
    monkeypatch.setattr(density, "COUNTS", (1,))
    monkeypatch.setattr(density, "REACHES", (0.5, 3.0))
    (report,) = density.run(replace(bench, systems=("KISS-ICP",)))
    publish(report, tmp_path)
    ways = {r["way"]: r for r in report.records}
    assert {"raw", "1 at 3", "2 at 12, not flat", "PCA, the paper's, 7 at 2"} < set(ways)
    assert ways["raw"]["long_change_percent"] == 0.0
    assert len(report.cells[1]) == len(ways)
    assert len(plot_colors(tmp_path / "density.png")) >= 2


def test_every_sampling_setting_is_a_separate_run(town, tmp_path):
    pytest.importorskip("kiss_icp")
    kept = Cache(tmp_path)
    for way in (raw(), densified(POLI, DensifyConfig(per_point=1)), densified(POLI, DensifyConfig(per_point=1, max_sigma=2.0))):
        kept.outcome(town, contestant("KISS-ICP", way))
    assert len(list(tmp_path.rglob("*.json"))) == 3
    by_kiss = run_kiss(town.scans).poses
    np.testing.assert_allclose(kept.outcome(town, contestant("KISS-ICP", raw())).poses, by_kiss)


def test_interpolated_rows_lie_on_the_plane_and_between_the_rings():
    ground, wall = rays(ELEVATIONS[ELEVATIONS < -2.0], np.arange(0.0, 360.0, 0.5)), rays(ELEVATIONS, np.arange(-40.0, 40.0, 0.5))
    ground *= (-1.8 / ground[:, 2])[:, None]  # 1.8 m below the sensor
    new = interpolate(ground, ELEVATIONS)[len(ground) :]
    np.testing.assert_allclose(new[:, 2], -1.8, atol=1e-6)
    from_rings = np.abs(elevations_of(new)[:, None] - ELEVATIONS[None, :]).min(axis=1)
    np.testing.assert_allclose(from_rings.min(), 0.5, atol=0.05)  # a quarter of the step, and never on a ring
    wall *= (10.0 / wall[:, 0])[:, None]
    dense = interpolate(wall, ELEVATIONS, RangeInterpolation(rows=1))
    np.testing.assert_array_equal(dense[: len(wall)], wall)
    np.testing.assert_allclose(dense[:, 0], 10.0, atol=1e-6)
    assert len(dense) == len(wall) * (2 * len(ELEVATIONS) - 1) // len(ELEVATIONS)


def test_nothing_is_interpolated_between_two_surfaces_nor_across_a_gap():
    near, far = 5.0 * rays([-1.0], np.arange(0.0, 360.0, 1.0)), 20.0 * rays([1.0], np.arange(0.0, 360.0, 1.0))
    assert len(interpolate(np.concatenate([near, far]), ELEVATIONS)) == len(near) + len(far)
    aside = 5.0 * rays([1.0], np.arange(0.5, 360.0, 1.0))
    assert len(interpolate(np.concatenate([near, aside]), ELEVATIONS)) == len(near) + len(aside)
    around = 5.0 * np.concatenate([rays([-1.0], [179.95]), rays([1.0], [-179.95])])  # neighbors, where the azimuth wraps around
    assert len(interpolate(around, ELEVATIONS)) == 2 + RangeInterpolation().rows
    assert interpolate(np.zeros((0, 3), np.float32), ELEVATIONS).shape == (0, 3)


@pytest.mark.parametrize(("sensor", "count"), [("hdl32e", 32), ("os1_64", 64)])
def test_thinning_keeps_every_nth_ring(sensor, count):
    every = ring_elevations(sensor)
    points = 7.0 * rays(every, np.arange(0.0, 360.0, 10.0))
    thinned = thin_rings(points, sensor, 16)
    assert len(every) == count
    assert len(thinned) == 16 * 36
    np.testing.assert_allclose(np.unique(elevations_of(thinned).round(4)), ring_elevations(sensor, 16).round(4), atol=1e-3)
    assert set(nearest_ring(thinned, ring_elevations(sensor, 16))) == set(range(16))


def test_impossible_options_are_refused(bench):
    with pytest.raises(InputError, match="divisor"):
        thin_rings(np.ones((3, 3)), "hdl32e", 7)
    with pytest.raises(InputError, match="rings are known for"):
        ring_elevations("os2_128")
    with pytest.raises(InputError, match="choose from KISS-ICP"):
        replace(bench, systems=("LOAM",))
    with pytest.raises(InputError, match="processes"):
        replace(bench, processes=-1)


def test_long_errors_have_enough_pairs():
    assert long_frames(121, real=False) == 100
    assert (long_frames(50, real=True), long_frames(21, real=True)) == (40, 16)
    assert change(0.8, 1.0) == pytest.approx(-20.0)

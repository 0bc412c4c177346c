"""KITTI's HDL-64E is recognized, corrected and timed; scans of other sensors are read as they are."""

import numpy as np
import pytest

import poli
from poli.beams.corrections import Spin
from poli.errors import InputError
from poli.io.datasets import correct_elevation, dataset, open_kitti, write_kitti
from poli.io.datasets.kitti import UNCHANGED, Hdl64eReader, is_hdl64e, scan_period
from poli.io.formats.bin import write_kitti_bin
from poli.worlds import SENSORS, World
from poli.worlds.drive import Drive
from poli.worlds.places import make_place
from poli.worlds.trajectory import Ride

_OFFSETS = (-0.06, 0.12)  # meters: heights of the lower and the upper lasers relative to the origin


def hdl64e(rng, columns=400, every=1):
    """Returns of a street: uneven ground about 1.73 m below, and a wall on each side.

    The lasers start above and below the origin, as in the real sensor, so elevations depend on the range.
    """
    beams = np.deg2rad(np.concatenate([np.linspace(-22.0, -8.8, 32), np.linspace(-8.3, 2.0, 32)]))
    height = np.repeat(_OFFSETS, 32)
    around = rng.uniform(-np.pi, np.pi, columns)
    up, azimuth = (grid.ravel() for grid in np.meshgrid(beams, around))
    start = np.tile(height, columns)
    with np.errstate(divide="ignore"):
        depth = 1.73 + 0.15 * np.sin(5.0 * azimuth) + start
        ground = np.where(up < 0.0, depth / -np.tan(up), np.inf)  # horizontal distances
        wall = np.where(azimuth > 0.0, 7.0, 10.0) / np.abs(np.sin(azimuth))
    flat = np.minimum(ground, wall)
    flat[flat > 80.0] = np.nan
    points = np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), start + flat * np.tan(up)], axis=1)
    points = points[np.isfinite(flat)] * rng.normal(1.0, 0.001, (np.isfinite(flat).sum(), 1))
    row = np.round((elevations(points) + 24.8) * 63 / 26.8).astype(int)
    return points[row % every == 0].astype(np.float32)


def elevations(points):
    return np.degrees(np.arctan2(points[:, 2], np.hypot(points[:, 0], points[:, 1])))


def sequence(root, name, clouds, period=0.1):
    folder = root / "sequences" / name / "velodyne"
    folder.mkdir(parents=True)
    for number, points in enumerate(clouds):
        write_kitti_bin(folder / f"{number:06d}.bin", poli.Scan(points))
    (folder.parent / "times.txt").write_text("".join(f"{period * i:.9f}\n" for i in range(len(clouds))))
    return root


def test_points_turn_up_about_the_cross_product_with_z(rng):
    points = rng.normal(size=(50, 3)) * [20.0, 20.0, 3.0]
    turned = correct_elevation(points)
    for p, q in zip(points, turned, strict=True):
        axis = np.cross(p, [0.0, 0.0, 1.0])
        R = poli.se3.so3_exp(np.deg2rad(0.205) * axis / np.linalg.norm(axis))
        np.testing.assert_allclose(q, R @ p, atol=1e-9)
    np.testing.assert_allclose(elevations(turned) - elevations(points), 0.205, atol=1e-9)
    assert correct_elevation(points.astype(np.float32)).dtype == np.float32
    odd = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    np.testing.assert_array_equal(correct_elevation(odd), odd)
    with pytest.raises(InputError, match=r"\(5, 2\)"):
        correct_elevation(np.zeros((5, 2)))


def test_the_correction_is_that_of_kiss_icp(rng):
    kiss = pytest.importorskip("kiss_icp.pybind.kiss_icp_pybind", reason="kiss-icp is not installed: pip install 'poli[bench]'")
    points = rng.normal(size=(50, 3)) * [20.0, 20.0, 3.0]
    theirs = np.asarray(kiss._correct_kitti_scan(kiss._Vector3dVector(points)))
    np.testing.assert_allclose(correct_elevation(points), theirs, atol=1e-9)


@pytest.mark.parametrize("every", [1, 2, 4])
def test_an_hdl64e_is_recognized_corrected_and_timed(tmp_path, rng, every):
    clouds = [hdl64e(rng, every=every) for _ in range(3)]
    assert all(map(is_hdl64e, clouds))
    root = sequence(tmp_path, "drive", clouds, period=0.08)
    for scan, points in zip(dataset("kitti", root), clouds, strict=True):
        np.testing.assert_allclose(elevations(scan.points) - elevations(points), 0.205, atol=1e-4)
        np.testing.assert_allclose(scan.fields["time"], Spin().times(points, 0.08), atol=1e-6)
    plain = dataset("kitti", root, correct_elevation=False, deskewed=True)
    np.testing.assert_array_equal(plain[1].points, clouds[1])
    assert "time" not in plain[1].fields
    np.testing.assert_allclose(dataset("kitti", root, period=0.2)[0].fields["time"], Spin().times(clouds[0], 0.2), atol=1e-6)


def test_odometry_sequences_are_corrected_and_have_no_times(tmp_path, rng):
    points = hdl64e(rng)
    root = sequence(tmp_path, "07", [points] * 2)
    scan = dataset("kitti", root)[0]
    assert "time" not in scan.fields
    np.testing.assert_allclose(scan.points, correct_elevation(points), atol=1e-5)
    assert "time" in dataset("kitti", root, deskewed=False)[0].fields


def test_one_obstructed_or_damaged_scan_does_not_decide(tmp_path, rng):
    points = hdl64e(rng)
    obstructed = points[elevations(points) > -15.0]
    assert not is_hdl64e(obstructed)
    assert not is_hdl64e(points[:100])
    root = sequence(tmp_path, "drive", [obstructed, points, points, points])
    (root / "sequences" / "drive" / "velodyne" / "000003.bin").write_bytes(b"\0" * 7)
    np.testing.assert_allclose(dataset("kitti", root)[0].points, correct_elevation(obstructed), atol=1e-5)


def test_sequences_of_write_kitti_are_read_as_they_are(tmp_path, rng):
    points = hdl64e(rng)
    write_kitti(tmp_path, "drive", [poli.Scan(points)] * 2, np.tile(np.eye(4), (2, 1, 1)))
    scan = dataset("kitti", tmp_path)[0]
    np.testing.assert_array_equal(scan.points, points)
    assert "time" not in scan.fields
    np.testing.assert_allclose(dataset("kitti", tmp_path, correct_elevation=True)[0].points, correct_elevation(points), atol=1e-5)
    (tmp_path / "sequences" / "drive" / UNCHANGED).unlink()
    np.testing.assert_allclose(dataset("kitti", tmp_path)[0].points, correct_elevation(points), atol=1e-5)


@pytest.fixture(scope="module")
def world():
    return World(make_place("town", 5))


@pytest.mark.parametrize("deskewed", [True, False])
def test_simulated_sensors_are_not_recognized(tmp_path, world, deskewed):
    """Without the mark of `write_kitti`, too, except for a moving HDL-64E, whose elevations are smeared by deskewing."""
    for name, sensor in SENSORS.items():
        drive = Drive(world, sensor, Ride(), 1, 5, deskewed)
        write_kitti(tmp_path, name, drive, drive.poses)
        marked = open_kitti(tmp_path, name).read
        assert isinstance(marked, Hdl64eReader)
        assert not marked.corrects
        if name != "hdl64e" or not deskewed:
            assert not is_hdl64e(open_kitti(tmp_path, name)[0].points)


PANDAR64 = np.concatenate([[-25.0, -19.0], np.linspace(-14.0, -6.0, 9), np.linspace(-5.8, 2.0, 48)])


@pytest.mark.parametrize(
    "beams", [np.linspace(-25.0, 15.0, 64), np.linspace(-22.5, 22.5, 64), PANDAR64], ids=["VLS-128", "OS1-64", "Pandar64"]
)
def test_beams_over_an_open_field_are_not_recognized(rng, beams):
    """Only the ground returns, so that the highest return is near the horizon for every sensor."""
    beams = np.deg2rad(beams[beams < -0.5])
    up, azimuth = (grid.ravel() for grid in np.meshgrid(beams, rng.uniform(-np.pi, np.pi, 500)))
    flat = 1.7 / -np.tan(up) * rng.normal(1.0, 0.001, len(up))
    points = np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), flat * np.tan(up)], axis=1)
    assert not is_hdl64e(points)


def test_the_period_comes_from_plausible_stamps():
    assert scan_period([0, 50_000_000, 100_000_000, 500_000_000, 550_000_000]) == pytest.approx(0.05)
    assert scan_period([0, 10**9, 2 * 10**9]) == 0.1  # key frames
    assert scan_period(None) == scan_period([5]) == 0.1


def test_options_are_checked(tmp_path, rng):
    root = sequence(tmp_path, "drive", [hdl64e(rng, 50)])
    with pytest.raises(InputError, match="correct_elevation is 'yes'"):
        dataset("kitti", root, correct_elevation="yes")
    with pytest.raises(InputError, match="period"):
        dataset("kitti", root, period=-1.0)

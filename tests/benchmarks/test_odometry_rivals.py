"""Drives for the odometry benchmark, and the rivals that run on them."""

import numpy as np
import pytest

import poli
from benchmarks.data.drives import RealSequence, real_sequences, simulated_sequences
from benchmarks.rivals.odometry import METHODS, PAIRWISE, run_pairwise, settings_grid
from poli.io.datasets import write_kitti

COUNT = 5


@pytest.fixture(scope="module")
def beams(tmp_path_factory):
    """A sensor small enough for a test."""
    path = tmp_path_factory.mktemp("beams") / "small.txt"
    path.write_text("# steps 600\n" + "\n".join(str(e) for e in np.linspace(-15.0, 15.0, 16)))
    return str(path)


@pytest.fixture(scope="module")
def keep(tmp_path_factory):
    return tmp_path_factory.mktemp("drives")


@pytest.fixture(scope="module")
def town(beams, keep):
    return next(simulated_sequences((beams,), ("town",), COUNT, keep=keep))


def largest_error(poses, true):
    """Largest error in meters of the motion between consecutive scans."""
    found, wanted = (np.linalg.inv(T[:-1]) @ T[1:] for T in (poses, true))
    return np.linalg.norm((np.linalg.inv(wanted) @ found)[:, :3, 3], axis=1).max()


def test_real_sequences_are_read_thinned_and_cropped(town, tmp_path):
    write_kitti(tmp_path, "street", [poli.Scan(points) for points in town.scans], town.poses)
    table = [RealSequence("street", "vlp16", 10.0, (0.5,), nearest=5.0), RealSequence("street", "hdl64e", 10.0, (0.5,), beams=16)]
    cropped, thinned = real_sequences(tmp_path, table)
    assert (cropped.name, thinned.name) == ("street", "street, 16 beams")
    np.testing.assert_allclose(cropped.poses, town.poses, atol=1e-9)
    assert min(np.linalg.norm(points, axis=1).min() for points in cropped.scans) >= 5.0
    assert all(0 < len(thin) < len(whole) for thin, whole in zip(thinned.scans, town.scans, strict=True))


@pytest.mark.parametrize("method", PAIRWISE)
def test_small_gicp_tracks_the_drive(town, method):
    pytest.importorskip("small_gicp")
    track = run_pairwise(town.scans, 0.5, settings_grid(method, 0.5)[0])
    assert track.poses.shape == (COUNT, 4, 4)
    assert track.seconds.shape == (COUNT,)
    assert (track.seconds > 0.0).all()
    np.testing.assert_array_equal(track.poses[0], np.eye(4))
    assert largest_error(track.poses, town.poses) < (0.7 if method == "ICP" else 0.15)  # the car moves 0.8 m per scan


@pytest.mark.parametrize(
    ("package", "name", "way", "most"),
    [
        ("kiss_icp", "KISS-ICP", "defaults", 0.4),  # meters; all start without a motion estimate
        ("genz_icp", "GenZ-ICP", "outdoor", 0.4),
        ("evalio", "CT-ICP", "defaults", 0.4),
        ("evalio", "MAD-ICP", "defaults", 0.4),
        ("evalio", "LOAM", "10 scans", 0.7),  # 16 rings are few for it
    ],
)
def test_systems_track_the_drive(town, package, name, way, most):
    pytest.importorskip(package)
    pytest.importorskip("yaml")
    track = METHODS[name].ways(0.5)[way](town.recorded)
    assert track.poses.shape == (COUNT, 4, 4)
    assert track.seconds.shape == (COUNT,)
    np.testing.assert_allclose(track.poses[0], np.eye(4), atol=1e-12)
    assert largest_error(track.poses, town.poses) < most  # the car moves 0.8 m per scan

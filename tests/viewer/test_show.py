"""Pictures: the file is a PNG, and objects are drawn in the right place."""

import numpy as np
import pytest

from pictures import read_picture
from poli import Ellipsoids
from poli.errors import InputError
from poli.viewer import Camera, render_ellipsoids, render_points, write_png

CAMERA = Camera(eye=(0.0, -10.0, 0.0), target=(0.0, 0.0, 0.0), width=200, height=100, field_of_view=60.0)
RED, BLUE = np.array([1.0, 0, 0]), np.array([0, 0, 1.0])


def test_png_round_trip(tmp_path, rng):
    image = rng.integers(0, 256, (7, 11, 3), dtype=np.uint8)
    for name in ("a.png", "b.png"):
        write_png(tmp_path / name, image)
        np.testing.assert_array_equal(read_picture(tmp_path / name), image)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "b.png"]  # no temporary files are left


@pytest.mark.parametrize(
    "image", [np.zeros((7, 11), np.uint8), np.zeros((7, 11, 3)), np.zeros((0, 11, 3), np.uint8)], ids=["gray", "float", "empty"]
)
def test_arrays_that_are_not_images_are_refused(tmp_path, image):
    with pytest.raises(InputError, match="image has shape"):
        write_png(tmp_path / "b.png", image)
    assert not list(tmp_path.iterdir())


def test_a_ball_has_the_right_size():
    ball = Ellipsoids(np.zeros((1, 3)), 0.25 * np.eye(3)[None])
    image = render_ellipsoids(ball, CAMERA, colors=RED[None], radius=2.0)  # a radius of 1 m, seen from 10 m
    drawn = (image[..., 1] < 100) & (image[..., 0] > 100)
    expected = np.pi * (CAMERA.focal * np.tan(np.arcsin(0.1))) ** 2
    assert drawn.sum() == pytest.approx(expected, rel=0.05)
    rows, columns = np.nonzero(drawn)
    assert rows.mean() == pytest.approx(49.5, abs=0.6)
    assert columns.mean() == pytest.approx(99.5, abs=0.6)


def test_a_near_ball_hides_a_far_one():
    for order in ([0, 1], [1, 0]):
        means = np.array([[0.0, -2.0, 0.0], [0.0, 2.0, 0.0]])[order]
        field = Ellipsoids(means, np.tile(0.1 * np.eye(3), (2, 1, 1)))
        image = render_ellipsoids(field, CAMERA, colors=np.stack([RED, BLUE])[order])
        assert image[50, 100, 0] > image[50, 100, 2]


def test_a_plate_seen_edge_on_is_thin():
    plate = Ellipsoids(np.zeros((1, 3)), np.diag([1.0, 1.0, 0.0025])[None])
    drawn = render_ellipsoids(plate, CAMERA, colors=RED[None])[..., 1] < 100
    assert 100 < drawn.sum() < 300  # 70 pixels long, about three thick


def test_points_in_front_of_and_behind_the_camera():
    points = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 1.0], [0.0, -20.0, 0.0]])
    image = render_points(points, CAMERA, np.stack([RED, BLUE, BLUE]), pixels=1)
    assert image[50, 100].tolist() == [255, 0, 0]
    row, column = 50 - round(CAMERA.focal / 10), 100 + round(2 * CAMERA.focal / 10)
    assert (image[row - 1 : row + 2, column - 1 : column + 2] == [0, 0, 255]).all(axis=2).any()
    assert ((image == [0, 0, 255]).all(axis=2)).sum() == 1


def test_a_camera_looking_along_its_up_vector_is_refused():
    with pytest.raises(InputError, match="up"):
        render_points(np.zeros((1, 3)), Camera((0, 0, 10.0), (0, 0, 0.0)), RED[None])

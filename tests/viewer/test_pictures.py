"""Pictures: files, renderings, headings, panels side by side, and charts; everything is drawn in the right place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pictures import plot_colors, read_picture
from poli import Ellipsoids
from poli.errors import InputError
from poli.viewer import Camera, Panel, Track, draw_panels, render_ellipsoids, render_points, write_png
from poli.viewer.picture import LINE, grid_of, heading, point_size, text_width, wrapped
from poli.viewer.plots import Chart, equal_limits, tick_text, ticks
from poli.viewer.plots import Panel as ChartPanel

CAMERA = Camera(eye=(0.0, -10.0, 0.0), target=(0.0, 0.0, 0.0), width=200, height=100, field_of_view=60.0)
RED, BLUE = np.array([1.0, 0, 0]), np.array([0, 0, 1.0])
BOX = (80, 40, 380, 240)


def test_png_round_trip(tmp_path, rng):
    image = rng.integers(0, 256, (7, 11, 3), dtype=np.uint8)
    for name in ("a.png", "b.png"):
        write_png(tmp_path / name, image)
        np.testing.assert_array_equal(read_picture(tmp_path / name), image)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    for wrong in (image[..., 0], image / 255.0, image[:0]):
        with pytest.raises(InputError, match="image has shape"):
            write_png(tmp_path / "c.png", wrong)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "b.png"]  # no temporary files are left


# --- renderings


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
    with pytest.raises(InputError, match="up"):
        render_points(points, Camera((0, 0, 10.0), (0, 0, 0.0)), np.stack([RED, BLUE, BLUE]))


# --- headings and panels


def test_text_stays_in_its_line_and_breaks_at_spaces():
    image = heading("Agypq|(1.5°)", "", 300)
    rows, columns = np.nonzero(image[..., 0] < 200)
    assert 10 <= rows.min() < rows.max() < 12 + LINE
    assert 10 <= columns.min() < columns.max() <= 12 + text_width("Agypq|(1.5°)") + 2
    assert image.min() < 60  # dark on pale
    text = "one point in each voxel of 0.5 m; normals off by 4.6° (median)"
    lines = wrapped(text, 200)
    assert " ".join(lines) == text
    assert max(map(text_width, lines)) <= 200
    assert wrapped("", 200) == []
    assert wrapped("a tremendously-long-word", 50) == ["a", "tremendously-long-word"]


@pytest.mark.parametrize(
    ("count", "size", "columns"),
    [(1, (1600, 900), 1), (2, (1600, 900), 2), (3, (1600, 900), 3), (4, (1600, 900), 2), (5, (1600, 900), 3), (2, (500, 900), 1),
     (4, (500, 700), 2)],
)  # fmt: skip
def test_the_grid_wastes_little(count, size, columns):
    grid = grid_of(count, *size, gap=6)
    assert grid.columns == columns
    assert grid.columns * (grid.width + 6) - 6 <= size[0]
    assert -(-count // columns) * (grid.height + 6) - 6 <= size[1]


def test_points_of_large_clouds_are_small():
    sizes = [point_size(count) for count in (0, 1, 10_000, 25_000, 60_000, 120_000, 500_000)]
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (3.0, 1.0)
    assert all(2.0 * size == round(2.0 * size) for size in sizes)  # the steps of the page's slider


def test_every_panel_has_its_name_and_its_track(rng):
    points = rng.uniform(-1.0, 1.0, (200, 3))
    way = np.stack([np.linspace(-1.0, 1.0, 9), np.zeros(9), np.zeros(9)], axis=1)
    tracks = (Track(way, "way", (1.0, 0.0, 0.0)), Track(way + [0.0, 0.0, 0.5], "truth", (0.0, 0.0, 1.0)))
    panels = [Panel("First", points=points, caption="some words"), Panel("Second", points=points, tracks=tracks)]
    image = draw_panels(panels, width=900, height=400)
    assert image.shape == (400, 900, 3)
    for panel, left in zip(panels, (0, 453), strict=True):
        head = heading(panel.name, panel.caption, 447)
        np.testing.assert_array_equal(image[: LINE + 10, left : left + 447], head[: LINE + 10])
    for color in ([255, 0, 0], [0, 0, 255]):
        drawn = (image == color).all(axis=2)
        assert drawn[100:].sum() > 200  # the line
        assert drawn[:100].sum() == 18 * 6  # its color in the heading
        assert not drawn[:, :450].any()
    colored = draw_panels([Panel("Normals", points=points, normals=points)], width=900, height=400)
    assert (colored[-LINE:] < 128).any()  # the meaning of the colors
    draw_panels(panels, width=60, height=40)  # too small for its text: no error


# --- charts


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_few_round_and_inside(low, span):
    found = ticks(low, low + span)
    assert 1 <= len(found) <= 8
    assert (found >= low - 1e-6 * span).all()
    assert (found <= low + 1.000001 * span).all()
    texts = [tick_text(value, found) for value in found]
    assert len(set(texts)) == len(texts)
    for value, text in zip(found, texts, strict=True):
        assert float(text) == pytest.approx(value, abs=1e-6 * span)


def test_axes_of_equal_scale_contain_all_points(rng):
    points = rng.normal(size=(50, 2)) * [100.0, 1.0]
    (left, right), (low, high) = equal_limits(points, BOX, 2.0)
    assert (right - left) / 300 == pytest.approx((high - low) / 200)
    assert ((points > [left, low]) & (points < [right, high])).all()
    (left, right), (low, high) = equal_limits(np.zeros((1, 2)), BOX, 2.0)
    assert min(right - left, high - low) >= 2.0


def test_marks_are_drawn_inside_the_frame_only(tmp_path):
    chart = Chart(400, 300)
    panel = ChartPanel(chart, BOX, "title", "x", (0.0, 10.0), (0.0, 1.0))
    panel.line(np.array([[0.0, 0.5], [4.0, 0.5], [5.0, np.nan], [6.0, 0.5], [1e12, 0.5]]), "#0072b2", 3.0)
    panel.dots(np.array([[2.0, 0.2], [np.nan, 0.2]]), "#d55e00")
    panel.area(np.array([0.1, 9.0]), np.zeros(2), np.array([0.0, 5.0, 10.0]), "#009e73", "an area")
    panel.finish()
    chart.save(tmp_path / "a.png")
    image = read_picture(tmp_path / "a.png")
    assert image.shape == (300, 400, 3)
    assert plot_colors(tmp_path / "a.png") >= {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73)}
    middle = image[140, :]  # half way up
    assert tuple(middle[140]) == (0x00, 0x72, 0xB2)
    assert tuple(middle[230]) != (0x00, 0x72, 0xB2)  # interrupted
    outside = np.ones(image.shape[:2], bool)
    outside[BOX[1] - 20 : BOX[3] + 2, BOX[0] : BOX[2] + 2] = False  # with the legend above
    assert np.ptp(image[outside].astype(int), axis=1).max() < 20  # texts are gray

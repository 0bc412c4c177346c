"""Charts drawn by Pillow: ticks, limits, and marks where they belong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pictures import plot_colors, read_picture
from poli.viewer.chart import Chart, Panel, equal_limits, tick_text, ticks

BOX = (80, 40, 380, 240)


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
    panel = Panel(chart, BOX, "title", "x", (0.0, 10.0), (0.0, 1.0))
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

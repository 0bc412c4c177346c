"""Text in pictures: it is placed correctly, is legible, and describes the picture."""

import numpy as np
import pytest

from poli.viewer import Panel, Track
from poli.viewer.picture import LINE, draw_panels, grid_of, heading, point_size, text_width, wrapped
from poli.viewer.render import BACKGROUND

CHARACTERS = "".join(map(chr, range(33, 127))) + "°±"


def inked(image):  # (H, W, 3) -> (H, W)
    return (image != BACKGROUND).any(axis=2)


def test_every_letter_is_drawn_and_distinct():
    missing = heading("\N{CJK UNIFIED IDEOGRAPH-6771}", "", 60).tobytes()  # a box, as for all characters missing in the font
    pictures = {heading(character, "", 60).tobytes() for character in CHARACTERS}
    assert len(pictures) == len(CHARACTERS)
    assert missing not in pictures
    assert text_width("iii") < text_width("mmm")


def test_text_stays_in_its_line_and_is_smooth():
    image = heading("Agypq|(1.5°)", "", 300)
    rows, columns = np.nonzero(inked(image))
    assert rows.min() >= 10
    assert rows.max() < 12 + LINE
    assert columns.min() >= 10
    assert columns.max() <= 12 + text_width("Agypq|(1.5°)") + 2
    gray = image[..., 0].astype(int)
    assert gray.min() < 60  # dark on pale
    assert ((gray > 80) & (gray < 200)).any()  # with smooth edges


def test_a_title_that_is_too_long_is_cut():
    image = heading("words " * 50, "", 100)
    np.testing.assert_array_equal(image[:, :90], heading("words " * 50, "", 200)[:, :90])
    assert image.shape[1] == 100


def test_lines_break_at_spaces():
    text = "one point in each voxel of 0.5 m; normals off by 4.6° (median)"
    lines = wrapped(text, 200)
    assert " ".join(lines) == text
    assert len(lines) > 2
    assert max(map(text_width, lines)) <= 200
    assert wrapped("", 200) == []
    assert wrapped("a tremendously-long-word", 50) == ["a", "tremendously-long-word"]


def test_a_heading_has_the_colors_of_its_keys():
    keys = heading("Title", "", 300, [("way", (1.0, 0.0, 0.0)), ("truth", (0.0, 0.0, 1.0))])
    places = [np.nonzero((keys == color).all(axis=2)) for color in ([255, 0, 0], [0, 0, 255])]
    assert [len(rows) for rows, _ in places] == [18 * 6, 18 * 6]
    between = keys[12 + LINE :, places[0][1].max() + 1 : places[1][1].min()]
    assert inked(between).any()  # the name


# --- panels


@pytest.mark.parametrize(
    ("count", "size", "columns"),
    [(1, (1600, 900), 1), (2, (1600, 900), 2), (3, (1600, 900), 3), (4, (1600, 900), 2), (5, (1600, 900), 3), (6, (1600, 900), 3),
     (2, (500, 900), 1), (3, (500, 700), 1), (4, (500, 700), 2)],
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


def test_every_panel_has_its_name_and_caption(rng):
    points = rng.uniform(-1.0, 1.0, (200, 3))
    way = np.stack([np.linspace(-1.0, 1.0, 9), np.zeros(9), np.zeros(9)], axis=1)
    panels = [Panel("First", points=points, caption="some words"), Panel("Second", points=points, tracks=(Track(way, "way"),))]
    image = draw_panels(panels, width=900, height=400)
    assert image.shape == (400, 900, 3)
    for panel, left in zip(panels, (0, 453), strict=True):
        head = heading(panel.name, panel.caption, 447)
        np.testing.assert_array_equal(image[: LINE + 10, left : left + 447], head[: LINE + 10])
    colored = draw_panels([Panel("Normals", points=points, normals=points)], width=900, height=400)
    assert (colored[-LINE:] < 128).any()  # the meaning of the colors
    draw_panels(panels, width=60, height=40)  # too small for its text: no error

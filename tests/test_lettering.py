"""Words in pictures: the letters are those of the maker, stand where they should, and say what a picture shows."""

from importlib.resources import as_file, files

import numpy as np
import pytest

from poli.show import Panel, Track
from poli.show.grid import grid_of
from poli.show.heading import headed, heading
from poli.show.lettering import CHARACTERS, FILE, HEIGHT, MARGIN, draw_text, text_width, wrapped
from poli.show.panel_picture import draw_panels
from poli.show.point_size import point_size


def white(height=60, width=300):
    return np.full((height, width, 3), 255, np.uint8)


def drawn(text, at=(10, 10), color=(0.0, 0.0, 0.0)):
    image = white()
    draw_text(image, text, at, color)
    return image


def test_the_shipped_letters_are_small_and_those_of_the_maker():
    with as_file(files("poli.show") / FILE) as path:
        assert path.stat().st_size < 12_000
        with np.load(path, allow_pickle=False) as archive:
            letters, steps = archive["letters"], archive["steps"]
    assert letters.shape == (HEIGHT, int((steps.astype(int) + 2 * MARGIN).sum()))
    assert len(steps) == len(CHARACTERS) == 96
    pytest.importorskip("matplotlib")
    from poli.show.lettering_make import drawn_letters

    made, made_steps = drawn_letters()
    # Another FreeType may hint otherwise.
    assert np.abs(made_steps.astype(int) - steps).max() <= 1
    if made.shape == letters.shape:
        assert (np.abs(made.astype(int) - letters) < 64).mean() > 0.95


def test_every_letter_is_there_and_none_is_another():
    pictures = {drawn(character).tobytes() for character in CHARACTERS}
    assert len(pictures) == len(CHARACTERS)
    assert text_width("iii") < text_width("mmm")


def test_words_stay_in_their_line_and_are_blended():
    image = drawn("Ågypq 1.5°", color=(1.0, 0.0, 0.0)).astype(int)
    touched = (image < 255).any(axis=2)
    rows, columns = np.nonzero(touched)
    assert rows.min() >= 10
    assert rows.max() < 10 + HEIGHT
    assert columns.min() >= 10 - MARGIN
    assert columns.max() < 10 + text_width("?gypq 1.5°") + MARGIN
    assert (image[..., 0] == 255).all()  # red on white: only the others sink
    assert ((image[..., 1] > 40) & (image[..., 1] < 215)).any()  # edges are smooth
    np.testing.assert_array_equal(drawn("Å"), drawn("?"))


@pytest.mark.parametrize("at", [(-8, 10), (295, 10), (10, -9), (10, 50), (-500, 10), (500, 10), (10, -100), (10, 100)])
def test_what_does_not_fit_is_cut(at):
    large = white(400, 1400)
    draw_text(large, "words", (at[0] + 550, at[1] + 150))
    np.testing.assert_array_equal(drawn("words", at), large[150:210, 550:850])


def test_lines_are_parted_at_spaces():
    text = "one point in each voxel of 0.5 m; normals off by 4.6° (median)"
    lines = wrapped(text, 200)
    assert " ".join(lines) == text
    assert len(lines) > 2
    assert max(map(text_width, lines)) <= 200
    assert wrapped("", 200) == []
    assert wrapped("a tremendously-long-word", 50) == ["a", "tremendously-long-word"]


def test_a_heading_stands_above_and_holds_the_colors_of_its_keys():
    picture = white()
    whole = headed(picture, "Title", "words about it")
    np.testing.assert_array_equal(whole[-len(picture) :], picture)
    assert len(whole) > len(picture) + 2 * HEIGHT
    keys = heading("Title", "", 300, [("way", (1.0, 0.0, 0.0)), ("truth", (0.0, 0.0, 1.0))])
    for color in ([255, 0, 0], [0, 0, 255]):
        assert (keys == color).all(axis=2).sum() > 50


# --- panels


@pytest.mark.parametrize(
    ("count", "size", "columns"),
    [(1, (1600, 900), 1), (2, (1600, 900), 2), (3, (1600, 900), 3), (4, (1600, 900), 2), (5, (1600, 900), 3), (6, (1600, 900), 3),
     (2, (500, 900), 1), (3, (500, 700), 1), (4, (500, 700), 2)],
)  # fmt: skip
def test_the_grid_wastes_little(count, size, columns):
    grid = grid_of(count, *size, gap=6)
    assert grid.columns == columns
    assert grid.columns * grid.rows >= count
    assert grid.columns * (grid.width + 6) - 6 <= size[0]
    assert grid.rows * (grid.height + 6) - 6 <= size[1]


def test_points_of_large_clouds_are_small():
    sizes = [point_size(count) for count in (0, 1, 10_000, 25_000, 60_000, 120_000, 500_000)]
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (3.0, 1.0)
    assert all(2.0 * size == round(2.0 * size) for size in sizes)  # the steps of the page's slider


def test_every_panel_of_a_picture_has_its_name_and_caption(rng):
    points = rng.uniform(-1.0, 1.0, (200, 3))
    way = np.stack([np.linspace(-1.0, 1.0, 9), np.zeros(9), np.zeros(9)], axis=1)
    panels = [Panel("First", points=points, caption="some words"), Panel("Second", points=points, tracks=(Track(way, "way"),))]
    image = draw_panels(panels, width=900, height=400)
    assert image.shape == (400, 900, 3)
    for panel, left in zip(panels, (0, 453), strict=True):
        head = heading(panel.name, panel.caption, 447)
        np.testing.assert_array_equal(image[: HEIGHT + 10, left : left + 447], head[: HEIGHT + 10])
    colored = draw_panels([Panel("Normals", points=points, normals=points)], width=900, height=400)
    assert (colored[-HEIGHT:] < 128).any()  # what the colors mean
    draw_panels(panels, width=60, height=40)  # too small for its words: no error

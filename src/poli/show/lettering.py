"""Words in pictures: letters that were drawn once, by `lettering_make`, and are blended into arrays of pixels."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

import numpy as np

CHARACTERS = "".join(map(chr, range(32, 127))) + "°"
FILE = "lettering.npz"
HEIGHT = 22  # pixels of a line
MARGIN = 2  # pixels at both sides of a letter's cell: some letters reach beyond their step
_NUMBERS = {character: number for number, character in enumerate(CHARACTERS)}
_UNKNOWN = _NUMBERS["?"]


def text_width(text: str) -> int:
    """Pixels."""
    return int(_letters()[1][_numbers(text)].sum())


def draw_text(
    image: np.ndarray,  # (H, W, 3) uint8, written to
    text: str,
    at: tuple[int, int],  # column and row of the upper left corner
    color: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> None:
    """One line, `HEIGHT` pixels high; what does not fit in the picture is cut, and a character that is not known is a "?"."""
    letters, steps = _letters()
    numbers = _numbers(text)
    cells = np.cumsum([0, *(steps + 2 * MARGIN)])  # where each begins in the file
    line = np.zeros((HEIGHT, text_width(text) + 2 * MARGIN), np.uint8)
    column = 0
    for number in numbers:
        cell = letters[:, cells[number] : cells[number + 1]]
        place = line[:, column : column + cell.shape[1]]
        np.maximum(place, cell, out=place)  # neighbours may reach into each other's cells
        column += steps[number]
    left, top = at[0] - MARGIN, at[1]
    inside = image[max(top, 0) : max(top + HEIGHT, 0), max(left, 0) : max(left + line.shape[1], 0)]  # (h, w, 3)
    covered = line[max(-top, 0) :, max(-left, 0) :][: inside.shape[0], : inside.shape[1], None] / 255.0  # (h, w, 1)
    inside[:] = (inside + covered * (255.0 * np.array(color) - inside) + 0.5).astype(np.uint8)


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` pixels, parted at its spaces; a longer word has a line of its own."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _numbers(text: str) -> np.ndarray:  # (characters of the text,)
    return np.array([_NUMBERS.get(character, _UNKNOWN) for character in text], int)


@cache
def _letters() -> tuple[np.ndarray, np.ndarray]:  # (HEIGHT, W) uint8, (characters,)
    with as_file(files("poli.show") / FILE) as path, np.load(path, allow_pickle=False) as archive:
        return archive["letters"], archive["steps"].astype(int)

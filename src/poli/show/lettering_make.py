"""Make the file of the letters again, which needs matplotlib: `python -m poli.show.lettering_make`.

The letters are those of DejaVu Sans, which comes with matplotlib. Its licence (Bitstream Vera's, its changes in the public domain)
allows anyone to use, copy, change and pass them on, in part and under another name as well.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from poli.errors import MissingExtra
from poli.files.atomic import atomic_path
from poli.show.lettering import CHARACTERS, FILE, HEIGHT, MARGIN

_PIXELS = 18  # of the font's em
_BASELINE = 17  # pixels below the upper edge


def drawn_letters() -> tuple[np.ndarray, np.ndarray]:  # (HEIGHT, W) uint8, (characters,) uint8
    """Cells beside each other, each wider than its letter's step by a margin at both sides; and the steps."""
    try:
        from matplotlib import font_manager, ft2font
    except ImportError:
        raise MissingExtra("drawing letters", "bench") from None
    font = ft2font.FT2Font(font_manager.findfont("DejaVu Sans"))
    font.set_size(_PIXELS, 72)  # at 72 dots an inch, a point is a pixel
    cells, steps = [], []
    for character in CHARACTERS:
        step = round(font.load_char(ord(character)).horiAdvance / 64)
        cell = np.zeros((HEIGHT, step + 2 * MARGIN), np.uint8)
        font.set_text(character)
        font.draw_glyphs_to_bitmap(antialiased=True)
        letter = np.asarray(font.get_image())  # (h, w), as large as the letter itself
        if letter.any():
            left, top = MARGIN + font.get_bitmap_offset()[0] // 64, _BASELINE + font.get_descent() // 64 - len(letter)
            cell[top : top + letter.shape[0], left : left + letter.shape[1]] = letter
        cells.append(cell)
        steps.append(step)
    return np.concatenate(cells, axis=1), np.array(steps, np.uint8)


def main() -> None:
    path = Path(__file__).with_name(FILE)
    letters, steps = drawn_letters()
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, letters=letters, steps=steps)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()

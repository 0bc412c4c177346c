"""Hostile files: small ones that promise, inflate to or ask for gigabytes, or would take forever.

    python -m tests.bombs

prints what comes of each, with its time and the memory that it took; `BOMB_BYTES=4000000000` makes larger ones.
`point_bombs`, `bag_bombs` and `table_bombs` make them.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

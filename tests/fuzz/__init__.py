"""Fuzz everything that poli reads: files of every format, messages, models, checkpoints, configurations and run folders.

    python -m tests.fuzz --cases 100000 --seed 1

A case is a valid input, damaged by a generator seeded with (seed, case number). It passes if it ends in an answer or in a
`PoliError`, within limits of time and memory. Anything else is bad: another exception, an abort, a hang, or an answer that is not
finite. Each bad input is kept in a folder with a note, and one command replays it.
"""

import sys
from pathlib import Path

# Let `python -m tests.fuzz` find the test helpers as pytest does.
sys.path.insert(0, str(Path(__file__).parents[1]))

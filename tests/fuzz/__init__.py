"""A fuzzer of everything that poli reads: files of every format, messages, models, checkpoints, configurations and run folders.

    python -m tests.fuzz --cases 100000 --seed 1

A case is a sound input, damaged by a generator seeded by (seed, number of the case). It is good if it ends in an answer or in a
`PoliError`, within limits of time and memory. Anything else is bad: another exception, an abort, a hang, an answer that is not
finite. Bad inputs are kept, each in a folder with a note, and one command runs one again.
"""

import sys
from pathlib import Path

# `python -m tests.fuzz` finds the helpers of the tests as pytest does.
sys.path.insert(0, str(Path(__file__).parents[1]))

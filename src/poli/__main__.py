"""`python -m poli`, as `torchrun -m poli` needs it."""

from poli.cli import main

main()

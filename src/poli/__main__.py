"""`python -m poli`, with which `poli train` starts its other processes."""

from poli.cli import main

main()

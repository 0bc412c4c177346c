"""One file for each experiment; `python -m benchmarks NAME` runs it."""

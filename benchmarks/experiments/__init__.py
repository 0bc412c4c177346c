"""One file per experiment; run it with `python -m benchmarks NAME`."""

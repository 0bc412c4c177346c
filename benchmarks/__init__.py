"""Benchmarks: one file per experiment. Rivals are the original packages, installed by the extra `bench`."""

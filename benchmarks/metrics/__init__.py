"""Metrics of the experiments."""

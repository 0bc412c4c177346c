"""Constant errors of the beams of a spinning sensor: their corrections, and finding them in a log."""

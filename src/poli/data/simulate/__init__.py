"""Simulated scans with known surfaces."""

from poli.data.simulate.scene import Scene, small_street
from poli.data.simulate.sensor import SENSORS, Sensor, simulate_scan

__all__ = ["SENSORS", "Scene", "Sensor", "simulate_scan", "small_street"]

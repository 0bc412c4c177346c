"""Simulated scans with known surfaces."""

from poli.data.simulate.ride import Ride, Trajectory, usual_ride
from poli.data.simulate.scanner import Scanner
from poli.data.simulate.sensor import SENSORS, SPINNING, Sensor, find_sensor, find_spinning
from poli.data.simulate.sweep import scan_of, simulate_scan, sweep
from poli.data.simulate.world import World

__all__ = [
    "SENSORS",
    "SPINNING",
    "Ride",
    "Scanner",
    "Sensor",
    "Trajectory",
    "World",
    "find_sensor",
    "find_spinning",
    "scan_of",
    "simulate_scan",
    "sweep",
    "usual_ride",
]

"""Simulated scans with known surfaces."""

from poli.worlds.sensors import SENSORS, SPINNING, Scanner, Sensor, find_sensor, find_spinning
from poli.worlds.sweep import World, scan_of, simulate_scan, sweep
from poli.worlds.trajectory import Ride, Trajectory, usual_ride

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

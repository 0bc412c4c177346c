"""Simulated scans with known surfaces."""

from poli.data.simulate.ride import Ride, Trajectory
from poli.data.simulate.sensor import SENSORS, Sensor, find_sensor
from poli.data.simulate.sweep import scan_of, simulate_scan, sweep
from poli.data.simulate.world import World

__all__ = ["SENSORS", "Ride", "Sensor", "Trajectory", "World", "find_sensor", "scan_of", "simulate_scan", "sweep"]

"""Simulated scans with known surfaces."""

from poli.data.simulate.sensor import SENSORS, Sensor, find_sensor
from poli.data.simulate.sweep import simulate_scan, sweep
from poli.data.simulate.trajectory import Ride, Trajectory
from poli.data.simulate.world import World

__all__ = ["SENSORS", "Ride", "Sensor", "Trajectory", "World", "find_sensor", "simulate_scan", "sweep"]

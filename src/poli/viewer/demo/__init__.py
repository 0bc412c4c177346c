"""The demo behind `poli demo`: ellipsoids, densification, registration and odometry in a simulated town."""

from poli.viewer.demo.run import Summary, run_demo

__all__ = ["Summary", "run_demo"]

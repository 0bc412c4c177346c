"""What `poli demo` does: a scan of a simulated town, its ellipsoids, its samples, its pose, and a drive; judged, drawn and written."""

from poli.show.demo.run import Summary, run_demo

__all__ = ["Summary", "run_demo"]

"""What `poli demo` does: ellipsoids of a scan, a denser scan, a pose and a drive in a simulated town; judged and drawn."""

from poli.show.demo.run import Summary, run_demo

__all__ = ["Summary", "run_demo"]

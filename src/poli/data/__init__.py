"""Sources of scans: files, datasets and simulated scenes."""

from poli.data.formats import read, write

__all__ = ["read", "write"]

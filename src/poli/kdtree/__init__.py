"""Neighbor search: a balanced k-d tree in contiguous arrays. `tree` answers queries, `neighborhoods` those of all points at once,
and `build` splits the points."""

from poli.kdtree.tree import KDTree

__all__ = ["KDTree"]

"""Neighbor search in a balanced k-d tree of contiguous arrays.

`tree` answers queries, `neighborhoods` finds the neighbors of all points at once, and `build` splits the points."""

from poli.kdtree.tree import KDTree

__all__ = ["KDTree"]

"""Solid shapes: triangle meshes, read from files or generated at random, and points sampled from them."""

from poli.worlds.shapes.mesh import Mesh, read_mesh
from poli.worlds.shapes.procedural import procedural_mesh

__all__ = ["Mesh", "procedural_mesh", "read_mesh"]

"""A triangle mesh, and sampling of points on its surface."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from poli.errors import DegenerateError, InputError
from poli.kernel import kernel
from poli.options import real_array, whole_number

# --- Connected components of a mesh.


def components(faces: np.ndarray, vertices: int) -> tuple[int, np.ndarray]:  # (F, 3) -> (vertices,)
    """Return the number of components and the component of each vertex, ordered by first vertex. A vertex without faces is a
    component."""
    roots = _roots(np.ascontiguousarray(faces, np.int64), vertices)
    first, component = np.unique(roots, return_inverse=True)
    return len(first), component


@kernel
def _roots(faces, vertices):  # (F, 3) -> (vertices,)
    """The lowest vertex of each vertex's component, by union-find."""
    parent = np.arange(vertices)
    for f in range(len(faces)):
        for corner in range(1, 3):
            a, b = _root(parent, faces[f, 0]), _root(parent, faces[f, corner])
            parent[max(a, b)] = min(a, b)
    for vertex in range(vertices):
        parent[vertex] = _root(parent, vertex)
    return parent


@kernel
def _root(parent, vertex):
    while parent[vertex] != vertex:
        parent[vertex] = parent[parent[vertex]]  # halves the path for later calls
        vertex = parent[vertex]
    return vertex


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles over shared vertices. Seen from outside, the corners of a face are in counterclockwise order."""

    vertices: np.ndarray  # (V, 3) float64
    faces: np.ndarray  # (F, 3) int32

    def __post_init__(self) -> None:
        vertices = np.ascontiguousarray(real_array(self.vertices, "vertices"))
        if vertices.ndim != 2 or vertices.shape[1] != 3:
            raise InputError(f"vertices have shape {vertices.shape}; expected (V, 3)")
        if not np.isfinite(vertices).all():
            raise InputError("vertices: some coordinates are not finite")
        faces = np.asarray(self.faces)
        if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
            raise InputError(f"faces are {faces.dtype} of shape {faces.shape}; expected integers of shape (F, 3)")
        if len(faces) and (faces.min() < 0 or faces.max() >= len(vertices)):
            raise InputError(f"faces: an index is outside 0..{len(vertices) - 1}; there are {len(vertices)} vertices")
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", np.ascontiguousarray(faces, dtype=np.int32))

    @cached_property
    def area_vectors(self) -> np.ndarray:  # (F, 3)
        """The normal of each face, with its area as length."""
        first, second, third = self.vertices[self.faces.T]
        ux, uy, uz = (second - first).T
        vx, vy, vz = (third - first).T
        return 0.5 * np.stack([uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx], axis=1)

    @cached_property
    def areas(self) -> np.ndarray:  # (F,)
        """The area of each face."""
        return np.sqrt(np.einsum("fi,fi->f", self.area_vectors, self.area_vectors))

    @cached_property
    def volume(self) -> float:
        """The volume inside a closed mesh; negative if its faces look inward."""
        middle = self.vertices.mean(axis=0) if len(self.vertices) else 0.0  # close to the faces, to reduce cancellation
        return float(np.einsum("fi,fi->", self.vertices[self.faces[:, 0]] - middle, self.area_vectors) / 3.0)

    @cached_property
    def _cumulative_areas(self) -> np.ndarray:  # (F,)
        cumulative = np.cumsum(self.areas)
        if len(cumulative) == 0 or not 0.0 < cumulative[-1] < np.inf:
            raise DegenerateError("mesh has no surface: there are no faces, or their total area is zero or overflows")
        return cumulative

    def normalized(self) -> "Mesh":
        """Return the mesh with the centroid of its surface at the origin and the farthest vertex at distance 1."""
        total = self._cumulative_areas[-1]
        weight = self.areas / (3.0 * total)  # each corner carries a third of its face
        centroid = sum((weight @ self.vertices[self.faces[:, corner]] for corner in range(3)), np.zeros(3))
        centered = self.vertices - centroid
        used = np.zeros(len(centered), bool)  # stray vertices of scanned files are not part of the surface
        used[self.faces] = True
        return Mesh(centered / np.linalg.norm(centered[used], axis=1).max(), self.faces)

    def sample(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Sample `count` points uniformly by area, (count, 3), and the unit normals of their faces, (count, 3)."""
        count = whole_number(count, "count", 0)
        cumulative = self._cumulative_areas
        # side="right" skips faces without area; the minimum guards against a draw that rounds up to the total.
        chosen = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
        chosen = np.minimum(chosen, np.searchsorted(cumulative, cumulative[-1]))
        first, second, third = self.vertices[self.faces[chosen].T]
        # The square root makes the distribution uniform over a triangle.
        along, across = np.sqrt(rng.random((count, 1))), rng.random((count, 1))
        points = (1.0 - along) * first + along * ((1.0 - across) * second + across * third)
        return points, self.area_vectors[chosen] / self.areas[chosen, None]

"""Connected components of a mesh."""

import numpy as np

from poli.kernel import kernel


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

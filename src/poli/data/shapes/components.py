"""Which vertices of a mesh hang together."""

import numpy as np

from poli.kernel import kernel


def components(faces: np.ndarray, vertices: int) -> tuple[int, np.ndarray]:  # (F, 3) -> (vertices,)
    """How many components there are, and each vertex's, by the order of their first vertices. One that no face has is its own."""
    roots = _roots(np.ascontiguousarray(faces, np.int64), vertices)
    first, component = np.unique(roots, return_inverse=True)
    return len(first), component


@kernel
def _roots(faces, vertices):  # (F, 3) -> (vertices,)
    """The lowest vertex that each hangs together with: union and find."""
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
        parent[vertex] = parent[parent[vertex]]  # halves the way for whoever asks next
        vertex = parent[vertex]
    return vertex

"""Polygonize the zero level of a field as a closed mesh: marching tetrahedra on a grid refined near the surface."""

import numpy as np

from poli.errors import DegenerateError
from poli.kernel import kernel
from poli.worlds.shapes.fields import Field
from poli.worlds.shapes.mesh import Mesh, components

_BLOCK = 4  # grid points along the side of a block; only blocks near the surface are fully evaluated
_SURVEY = 40  # grid points along the side of the coarse grid that locates the shape
# Fields are only approximate distances (blends, warps), so blocks are opened this much farther away than a true distance requires.
_CAUTION = 1.5

# The six tetrahedra of a cube around its main diagonal, one for each order of the axes: from corner 0 to corner 7 along the edges
# of the cube. Corners are bit masks of axes, so along any edge of a tetrahedron bits are only added.
_TETRAHEDRA = np.array([(0, 1 << a, (1 << a) | (1 << b), 7) for a in range(3) for b in range(3) if a != b])
_IS_EVEN = np.array([(b - a) % 3 == 1 for a in range(3) for b in range(3) if a != b])


def polygonize(field: Field, resolution: int, reach: float = 1.7) -> Mesh:
    """Return the closed zero level of `field` within the cube of half side `reach`, with about `resolution` cells along its longest
    side."""
    low, high = _bounds(field, reach)
    spacing = float((high - low).max()) / resolution
    values = _narrow_band(field, low, high, spacing)
    for axis in range(3):  # parts outside the cube are cut off and capped
        side = np.moveaxis(values, axis, 0)
        side[0] = np.maximum(side[0], 0.1 * spacing)
        side[-1] = np.maximum(side[-1], 0.1 * spacing)
    vertices, faces = march(values)
    if len(faces) == 0:
        raise DegenerateError("field has no zero level in the cube")
    return Mesh(low + vertices * spacing, faces)


def outer_components(mesh: Mesh, least_share: float = 0.02) -> Mesh:
    """Remove fragments (components with less than `least_share` of the area) and inner cavities, which no scanner sees."""
    corners = mesh.faces.astype(np.int64)
    count, component_of_vertex = components(corners, len(mesh.vertices))
    component = component_of_vertex[corners[:, 0]]  # (F,)
    area = np.bincount(component, mesh.areas, count)
    # The volume of a closed component does not depend on the origin.
    volume = np.bincount(component, np.einsum("fi,fi->f", mesh.vertices[corners[:, 0]], mesh.area_vectors), count)
    kept = ((area >= least_share * area.sum()) & (volume > 0.0))[component]
    used = np.zeros(len(mesh.vertices), bool)
    used[corners[kept]] = True
    new_index = np.cumsum(used) - 1
    return Mesh(mesh.vertices[used], new_index[corners[kept]].astype(np.int32))


def _bounds(field: Field, reach: float) -> tuple[np.ndarray, np.ndarray]:
    ticks = np.linspace(-reach, reach, _SURVEY)
    step = ticks[1] - ticks[0]
    points = np.stack(np.meshgrid(ticks, ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 3)
    near = points[field(points) < step]
    if len(near) == 0:
        raise DegenerateError("field has no inside in the cube")
    return near.min(axis=0) - 0.5 * step, near.max(axis=0) + 0.5 * step


def _narrow_band(field: Field, low: np.ndarray, high: np.ndarray, spacing: float) -> np.ndarray:
    """Evaluate the field on a grid of (nx, ny, nz) points; far from the surface only its sign is correct."""
    blocks = np.ceil((high - low) / (spacing * _BLOCK)).astype(int) + 1  # (3,)
    size = spacing * _BLOCK
    centers = low + (np.moveaxis(np.indices(blocks), 0, -1).reshape(-1, 3) + 0.5) * size - 0.5 * spacing
    at_center = field(centers).reshape(blocks)
    values = np.repeat(np.repeat(np.repeat(at_center, _BLOCK, 0), _BLOCK, 1), _BLOCK, 2)
    tiles = values.reshape(blocks[0], _BLOCK, blocks[1], _BLOCK, blocks[2], _BLOCK).transpose(0, 2, 4, 1, 3, 5)  # a view
    inside_block = np.moveaxis(np.indices((_BLOCK,) * 3), 0, -1).reshape(-1, 3)
    is_open = np.zeros(blocks, bool)
    to_open = np.abs(at_center) < _CAUTION * 0.5 * np.sqrt(3.0) * size
    while to_open.any():
        corner = np.argwhere(to_open)  # (B, 3)
        points = low + (corner[:, None] * _BLOCK + inside_block) * spacing
        tiles[tuple(corner.T)] = field(points.reshape(-1, 3)).reshape(-1, _BLOCK, _BLOCK, _BLOCK)
        is_open |= to_open
        # Where the sign changes at a closed block, the surface enters the block after all.
        to_open = _blocks_with_sign_change(values) & ~is_open
    return values


def _blocks_with_sign_change(values: np.ndarray) -> np.ndarray:
    inside = values < 0.0
    crossed = np.zeros(values.shape, bool)
    for axis in range(3):
        change = np.diff(inside, axis=axis)
        crossed_along, change = np.moveaxis(crossed, axis, 0), np.moveaxis(change, axis, 0)
        crossed_along[:-1] |= change
        crossed_along[1:] |= change
    x, y, z = (n // _BLOCK for n in values.shape)
    return np.asarray(crossed.reshape(x, _BLOCK, y, _BLOCK, z, _BLOCK).any(axis=(1, 3, 5)))


@kernel
def march(values):
    """Marching tetrahedra on a grid (nx, ny, nz) with spacing 1: vertices (V, 3), and faces (F, 3) that look towards positive
    values."""
    nx, ny, nz = values.shape
    # The vertex on the edge from a grid point in direction 1..7 (a bit mask of axes).
    vertex_on_edge = np.full((nx, ny, nz, 8), -1, np.int32)
    vertex_count = 0
    for x in range(nx):
        for y in range(ny):
            for z in range(nz):
                is_inside = values[x, y, z] < 0.0
                for direction in range(1, 8):
                    i, j, k = x + (direction & 1), y + (direction >> 1 & 1), z + (direction >> 2)
                    if i < nx and j < ny and k < nz and (values[i, j, k] < 0.0) != is_inside:
                        vertex_on_edge[x, y, z, direction] = vertex_count
                        vertex_count += 1
    vertices = np.empty((vertex_count, 3))
    for x in range(nx):
        for y in range(ny):
            for z in range(nz):
                for direction in range(1, 8):
                    vertex = vertex_on_edge[x, y, z, direction]
                    if vertex < 0:
                        continue
                    dx, dy, dz = direction & 1, direction >> 1 & 1, direction >> 2
                    here, there = values[x, y, z], values[x + dx, y + dy, z + dz]
                    # Kept off the grid points, where the triangles of different edges would degenerate.
                    share = min(max(here / (here - there), 0.01), 0.99)
                    vertices[vertex] = x + share * dx, y + share * dy, z + share * dz
    # An edge belongs to at most six tetrahedra; cutting three edges gives one face, cutting four gives two.
    faces = np.empty((3 * vertex_count, 3), np.int32)
    face_count = 0
    inside = np.empty(4, np.int64)
    outside = np.empty(4, np.int64)
    corner = np.empty((4, 3), np.int64)
    for x in range(nx - 1):
        for y in range(ny - 1):
            for z in range(nz - 1):
                sum_inside = 0
                for c in range(8):
                    sum_inside += values[x + (c & 1), y + (c >> 1 & 1), z + (c >> 2)] < 0.0
                if sum_inside == 0 or sum_inside == 8:
                    continue
                for t in range(6):
                    inside_count = outside_count = 0
                    is_even = _IS_EVEN[t]
                    for c in range(4):
                        mask = _TETRAHEDRA[t, c]
                        if values[x + (mask & 1), y + (mask >> 1 & 1), z + (mask >> 2)] < 0.0:
                            if outside_count % 2:  # the number of swaps that move it before the outside ones
                                is_even = not is_even
                            inside[inside_count] = mask
                            inside_count += 1
                        else:
                            outside[outside_count] = mask
                            outside_count += 1
                    if inside_count == 0 or outside_count == 0:
                        continue
                    # The cut is a triangle or a quadrilateral; its corners are in the order that looks outward if `is_even`.
                    n = 3
                    if inside_count == 1:
                        for c in range(3):
                            corner[c, 0], corner[c, 1] = inside[0], outside[c]
                    elif inside_count == 3:
                        for c in range(3):
                            corner[c, 0], corner[c, 1] = inside[c], outside[0]
                    else:
                        n = 4
                        corner[0, 0], corner[0, 1] = inside[0], outside[0]
                        corner[1, 0], corner[1, 1] = inside[0], outside[1]
                        corner[2, 0], corner[2, 1] = inside[1], outside[1]
                        corner[3, 0], corner[3, 1] = inside[1], outside[0]
                    for c in range(n):
                        start = min(corner[c, 0], corner[c, 1])
                        corner[c, 2] = vertex_on_edge[
                            x + (start & 1), y + (start >> 1 & 1), z + (start >> 2), corner[c, 0] ^ corner[c, 1]
                        ]
                    for c in range(1, n - 1):
                        second, third = (c, c + 1) if is_even else (c + 1, c)
                        faces[face_count, 0] = corner[0, 2]
                        faces[face_count, 1] = corner[second, 2]
                        faces[face_count, 2] = corner[third, 2]
                        face_count += 1
    return vertices, faces[:face_count]

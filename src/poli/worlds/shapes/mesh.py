"""A triangle mesh, sampling of points on its surface, and meshes from `.ply` and `.obj` files."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from poli.errors import DegenerateError, FormatError, InputError
from poli.io.ply import read_ply_element
from poli.kernel import kernel
from poli.options import real_array, whole_number


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


# --- Meshes from files. `poli.io.ply` reads elements without lists; the faces, which are lists, are read here.


_ENDINGS = (".ply", ".obj")
_CORNERS = ("vertex_indices", "vertex_index")
_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4", "double": "f8",
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "float32": "f4", "float64": "f8",
}  # fmt: skip
_Property = tuple[str, str, str]  # name, type, and for a list the type of its length


def read_mesh(path: str | os.PathLike[str]) -> Mesh:
    """Read the triangles of a `.ply` or `.obj` file. Polygons are split into triangle fans; everything but positions is ignored."""
    path = Path(path)
    if not path.is_file():
        raise FormatError(f"{path}: {'this is a folder, not a file' if path.is_dir() else 'no such file'}")
    if path.suffix.lower() not in _ENDINGS:
        raise FormatError(f"{path}: unknown mesh format '{path.suffix}'; expected one of {', '.join(_ENDINGS)}")
    try:
        vertices, polygons = _read_ply(path) if path.suffix.lower() == ".ply" else _read_obj(path)
        faces = _fans(polygons)
        if len(faces) == 0:
            raise InputError("no faces")
        # Check before Mesh stores them in 32 bits, where a large index would wrap around to a valid one.
        if faces.min() < 0 or faces.max() >= len(vertices):
            raise InputError(f"a face has an index outside the {len(vertices)} vertices")
        return Mesh(vertices, faces)
    except InputError as error:
        raise FormatError(f"{path}: {error}") from None


def _fans(polygons: np.ndarray | list[list[int]]) -> np.ndarray:  # (F, 3) int64
    """Triangulate polygons, given as (F, 3) or as lists of corners, into fans around the first corner."""
    if isinstance(polygons, np.ndarray):
        return polygons
    counts = np.array([len(corners) for corners in polygons], np.int64)
    try:
        corners = np.fromiter(chain.from_iterable(polygons), np.int64, int(counts.sum()))
    except OverflowError:
        raise InputError("a vertex index exceeds 64 bits") from None
    # Each corner but the first and the last of its polygon forms a triangle with the first corner and the next one.
    polygon = np.repeat(np.arange(len(counts)), counts - 2)
    first = (np.cumsum(counts) - counts)[polygon]
    middle = np.arange(len(polygon)) - (np.cumsum(counts - 2) - (counts - 2))[polygon] + first + 1
    return np.stack([corners[first], corners[middle], corners[middle + 1]], axis=1)


def _read_ply(path: Path) -> tuple[np.ndarray, np.ndarray | list[list[int]]]:
    """Return the vertices, and the faces: (F, 3) int64 if the file is binary and has only triangles, otherwise lists of corners."""
    records = read_ply_element(path, "vertex")  # which checks the header
    missing = {"x", "y", "z"} - set(records.dtype.names or ())
    if missing:
        raise FormatError(f"{path}: the vertices have no {', '.join(sorted(missing))}")
    vertices = np.stack([records[axis].astype(np.float64) for axis in "xyz"], axis=1)
    data = path.read_bytes()
    try:
        order, elements, start = _parse_header(data)
        before = elements[: next(k for k, (name, _, _) in enumerate(elements) if name == "face")]
        _, count, properties = elements[len(before)]
        skipped = sum(n * sum(np.dtype(kind).itemsize for _, kind, _ in p) for _, n, p in before)
    except (StopIteration, ValueError, KeyError, IndexError):
        raise FormatError(f"{path}: no readable element 'face' in this PLY file") from None
    if not any(name in _CORNERS and length[:1] in ("i", "u") and kind[0] in "iu" for name, kind, length in properties):
        raise FormatError(f"{path}: the faces have no list 'vertex_indices' of integers")
    if any(length for _, _, p in before for _, _, length in p):
        raise FormatError(f"{path}: an element before the faces has a list, which is not supported")
    try:
        if count > len(data):  # each face takes at least one byte
            raise ValueError
        if order == "ascii":
            lines = data[start:].split(b"\n")[sum(n for _, n, _ in before) :][:count]
            if len(lines) < count:
                raise ValueError
            return vertices, [_face_of_words(line.split(), properties) for line in lines]
        return vertices, _faces_of_bytes(data, start + skipped, order, count, properties)
    except (ValueError, IndexError, OverflowError):
        raise FormatError(f"{path}: the {count} faces cannot be read; the file is truncated or its header is wrong") from None


def _parse_header(data: bytes) -> tuple[str, list[tuple[str, int, list[_Property]]], int]:
    """Return 'ascii', '<' or '>', the elements with their counts and properties, and the offset of the data."""
    position, order = 0, ""
    elements: list[tuple[str, int, list[_Property]]] = []
    while True:
        line_end = data.index(b"\n", position)
        words = data[position:line_end].decode("ascii", errors="replace").split()
        position = line_end + 1
        match words:
            case ["end_header"]:
                return order, elements, position
            case ["format", kind, _]:
                order = {"ascii": "ascii", "binary_little_endian": "<", "binary_big_endian": ">"}[kind]
            case ["element", name, count]:
                elements.append((name, int(count), []))
            case ["property", "list", length, kind, name]:
                elements[-1][2].append((name, _TYPES[kind], _TYPES[length]))
            case ["property", kind, name]:
                elements[-1][2].append((name, _TYPES[kind], ""))


def _faces_of_bytes(data: bytes, at: int, order: str, count: int, properties: list[_Property]) -> np.ndarray | list[list[int]]:
    fields: list[tuple[str, str] | tuple[str, str, tuple[int]]] = []
    for name, kind, length in properties:  # as if every face were a triangle, as in most files
        fields += [(f"{name}#", order + length), (name, order + kind, (3,))] if length else [(name, order + kind)]
    record = np.dtype(fields)
    if count * record.itemsize <= len(data) - at and not any(length for name, _, length in properties if name not in _CORNERS):
        records = np.frombuffer(data, record, count, at)
        corners = next(name for name, _, length in properties if length)
        if (records[f"{corners}#"] == 3).all():
            return records[corners].astype(np.int64)
    polygons = []
    for _ in range(count):
        for name, kind, length in properties:
            number = 1
            if length:
                number = int(np.frombuffer(data, order + length, 1, at)[0])
                at += np.dtype(length).itemsize
            if number < 0 or at + number * np.dtype(kind).itemsize > len(data):
                raise ValueError
            if name in _CORNERS and length:
                polygons.append(_checked(np.frombuffer(data, order + kind, number, at).tolist()))
            at += number * np.dtype(kind).itemsize
    return polygons


def _face_of_words(words: list[bytes], properties: list[_Property]) -> list[int]:
    at, corners = 0, []
    for name, _, length in properties:
        number = int(words[at]) if length else 1
        at += bool(length)
        if number < 0 or at + number > len(words):
            raise ValueError
        if name in _CORNERS and length:
            corners = [int(word) for word in words[at : at + number]]
        at += number
    return _checked(corners)


def _checked(corners: list[int]) -> list[int]:
    if len(corners) < 3:
        raise ValueError
    return corners


def _read_obj(path: Path) -> tuple[np.ndarray, list[list[int]]]:
    vertices: list[list[float]] = []
    polygons: list[list[int]] = []
    with path.open("rb") as file:
        for number, line in enumerate(_whole_lines(file), 1):
            words = line.split()
            try:
                if words[:1] == [b"v"]:
                    x, y, z = (float(word) for word in words[1:4])
                    vertices.append([x, y, z])
                elif words[:1] == [b"f"]:
                    if len(words) < 4:
                        raise ValueError
                    polygons.append([_obj_index(word, len(vertices)) for word in words[1:]])
            except ValueError:
                shown = line.decode("ascii", errors="replace").strip()[:80]
                raise FormatError(f"{path}: line {number}: cannot parse {shown!r}") from None
    return np.array(vertices, np.float64).reshape(-1, 3), polygons


def _whole_lines(file: Iterable[bytes]) -> Iterable[bytes]:
    """Lines, with backslash continuations joined."""
    begun: list[bytes] = []
    for line in file:
        if line.rstrip().endswith(b"\\"):
            begun.append(line.rstrip()[:-1])
            continue
        yield b" ".join([*begun, line]) if begun else line
        begun.clear()
    if begun:
        yield b" ".join(begun)


def _obj_index(word: bytes, vertices_so_far: int) -> int:
    """The vertex index of `v`, `v/vt`, `v//vn` or `v/vt/vn`: counted from 1, or backwards from the last vertex if negative."""
    index = int(word.split(b"/", 1)[0])
    if index == 0:
        raise ValueError
    return index - 1 if index > 0 else vertices_so_far + index

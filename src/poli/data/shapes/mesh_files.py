"""Read meshes from `.ply` and `.obj` files. Invalid files raise a FormatError that names the file."""

import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np

from poli.data.shapes.mesh import Mesh
from poli.data.shapes.ply_faces import read_ply_polygons
from poli.errors import FormatError, InputError
from poli.files.ply import read_ply_element

_ENDINGS = (".ply", ".obj")


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
    records = read_ply_element(path, "vertex")
    missing = {"x", "y", "z"} - set(records.dtype.names or ())
    if missing:
        raise FormatError(f"{path}: the vertices have no {', '.join(sorted(missing))}")
    return np.stack([records[axis].astype(np.float64) for axis in "xyz"], axis=1), read_ply_polygons(path)


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

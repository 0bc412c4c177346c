"""Read meshes from `.ply` and `.obj` files. Invalid files raise a FormatError that names the file."""

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from poli.errors import FormatError, InputError
from poli.io.ply import read_ply_element
from poli.worlds.shapes.mesh import Mesh

# --- The faces of a PLY file. `poli.io.ply` reads elements without lists; this module reads the one list that a mesh needs.


# The struct format character of each PLY type.
_LETTERS = {
    "char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "float": "f", "double": "d",
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "float32": "f", "float64": "d",
}  # fmt: skip
_INDEX_NAMES = ("vertex_indices", "vertex_index")


@dataclass
class _Property:
    name: str
    letter: str
    count_letter: str = ""  # for a list: the type of its length


@dataclass
class _Element:
    name: str
    count: int
    properties: list[_Property] = field(default_factory=list)


def read_ply_polygons(path: Path) -> np.ndarray | list[list[int]]:
    """Return (F, 3) int64 if the file is binary and all faces are triangles, otherwise the corners of each face."""
    data = path.read_bytes()
    try:
        order, elements, start = _parse_header(data)
        before = elements[: next(k for k, element in enumerate(elements) if element.name == "face")]
        face = elements[len(before)]
        if not any(p.name in _INDEX_NAMES and p.count_letter in ("b", "B", "h", "H", "i", "I") for p in face.properties):
            raise FormatError(f"{path}: the faces have no list 'vertex_indices'")
    except (StopIteration, ValueError, KeyError, IndexError):
        raise FormatError(f"{path}: no readable element 'face' in this PLY file") from None
    if any(p.count_letter for element in before for p in element.properties):
        raise FormatError(f"{path}: an element before the faces has a list, which is not supported")
    if face.count > len(data):  # each face takes at least one byte
        raise FormatError(f"{path}: the header promises {face.count} faces in {len(data)} bytes; the file is truncated")
    try:
        if order == "ascii":
            lines = data[start:].split(b"\n")
            first = sum(element.count for element in before)
            return _polygons_of_words(lines[first : first + face.count], face)
        start += sum(element.count * struct.calcsize("=" + "".join(p.letter for p in element.properties)) for element in before)
        triangles = _only_triangles(data, start, order, face)
        return _polygons_of_bytes(data, start, order, face) if triangles is None else triangles
    except (struct.error, ValueError, IndexError, OverflowError):
        raise FormatError(f"{path}: the {face.count} faces cannot be read; the file is truncated or its header is wrong") from None


def _parse_header(data: bytes) -> tuple[str, list[_Element], int]:
    """Return 'ascii', '<' or '>', the elements, and the offset of the data. `read_ply_element` has already validated that the
    header ends."""
    position, order = 0, ""
    elements: list[_Element] = []
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
                elements.append(_Element(name, int(count)))
            case ["property", "list", count_kind, kind, name]:
                elements[-1].properties.append(_Property(name, _LETTERS[kind], _LETTERS[count_kind]))
            case ["property", kind, name]:
                elements[-1].properties.append(_Property(name, _LETTERS[kind]))


def _only_triangles(data: bytes, start: int, order: str, face: _Element) -> np.ndarray | None:
    """Fast path for files that have only triangles, the vast majority: one numpy array, or None for other files."""
    fields: list[tuple[str, str] | tuple[str, str, tuple[int]]] = []
    for k, p in enumerate(face.properties):
        if p.count_letter and p.name not in _INDEX_NAMES:
            return None
        fields += (
            [("count", order + p.count_letter), ("corners", order + p.letter, (3,))]
            if p.count_letter
            else [(str(k), order + p.letter)]
        )
    record = np.dtype(fields)
    if face.count * record.itemsize > len(data) - start:
        return None
    records = np.frombuffer(data, record, face.count, start)
    return records["corners"].astype(np.int64) if (records["count"] == 3).all() and records["corners"].dtype.kind in "iu" else None


def _polygons_of_bytes(data: bytes, position: int, order: str, face: _Element) -> list[list[int]]:
    polygons = []
    for _ in range(face.count):
        for p in face.properties:
            count = 1
            if p.count_letter:
                (count,) = struct.unpack_from(order + p.count_letter, data, position)
                position += struct.calcsize("=" + p.count_letter)
            if count < 0 or position + count > len(data):  # check before calling unpack_from with this count
                raise ValueError
            if p.name in _INDEX_NAMES and p.count_letter:
                polygons.append(_checked(struct.unpack_from(f"{order}{count}{p.letter}", data, position)))
            position += count * struct.calcsize("=" + p.letter)
    if position > len(data):
        raise ValueError
    return polygons


def _polygons_of_words(lines: list[bytes], face: _Element) -> list[list[int]]:
    if len(lines) < face.count:
        raise ValueError
    polygons = []
    for line in lines:
        words, position = line.split(), 0
        for p in face.properties:
            count = 1
            if p.count_letter:
                count = int(words[position])
                position += 1
            if count < 0 or position + count > len(words):
                raise ValueError
            if p.name in _INDEX_NAMES and p.count_letter:
                polygons.append(_checked([int(word) for word in words[position : position + count]]))
            position += count
    return polygons


def _checked(corners: list[int] | tuple) -> list[int]:
    if len(corners) < 3 or not all(isinstance(corner, int) for corner in corners):
        raise ValueError
    return list(corners)


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

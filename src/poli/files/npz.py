"""Read numpy archives from strangers: nothing is unpickled, and nothing is allocated on a header's word alone."""

import os
import zipfile
from pathlib import Path

import numpy as np

from poli.errors import FormatError

_LARGEST_INFLATED = 1 << 30  # bytes; an array above it must not come from a hundredth of its size


def read_npz_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Every array of the archive by its name."""
    path = Path(path)
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if member.file_size > _LARGEST_INFLATED and member.file_size > 100 * member.compress_size:
                    raise FormatError(
                        f"{path}: '{name}' would inflate from {member.compress_size} to {member.file_size} bytes; refused"
                    )
                with archive.open(member) as file:
                    arrays[name] = _read_array(file, member.file_size)
    except FormatError:
        raise
    except Exception as error:  # zipfile, zlib, tokenize and numpy raise a dozen kinds on damaged archives
        raise FormatError(
            f"{path}: not a readable numpy archive ({str(error)[:200]}); it is cut off, or of another format"
        ) from None
    return arrays


def _read_array(file, size: int) -> np.ndarray:
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read_header is None:
        raise ValueError(f"numpy format version {version}")
    shape, fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects, which are never loaded")
    count = 1
    for extent in shape:
        count *= int(extent)
    left = size - file.tell()
    if count < 0 or count * dtype.itemsize != left:
        raise ValueError(f"the header promises {count * dtype.itemsize} bytes, {left} follow")
    data = file.read(left)
    if len(data) != left:
        raise EOFError("cut off")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C").copy()

"""Read untrusted numpy archives: never unpickle, and check every header before allocating."""

import os
import zipfile
from pathlib import Path

import numpy as np

from poli.errors import FormatError, PoliError
from poli.files.limits import check_inflated

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those that numpy writes; zipfile inflates others without a limit
_STEP = 1 << 24  # bytes inflated at a time


def read_npz_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return all arrays of the archive by name."""
    path = Path(path)
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            # The sum, compared with the size of the file: members may overlap.
            check_inflated(path, path.stat().st_size, sum(member.file_size for member in members))
            for member in members:
                name = member.filename.removesuffix(".npy")
                if member.compress_type not in _METHODS:
                    raise FormatError(f"{path}: '{name}' has a compression that numpy does not use; write it with numpy.savez")
                with archive.open(member) as file:
                    arrays[name] = _read_array(file, member.file_size)
    except (PoliError, MemoryError):
        raise
    except Exception as error:  # zipfile, zlib, tokenize and numpy raise a dozen kinds on damaged archives
        raise FormatError(
            f"{path}: not a readable numpy archive ({str(error)[:200]}); it is truncated or has another format"
        ) from None
    return arrays


def _read_array(file, size: int) -> np.ndarray:
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read_header is None:
        raise ValueError(f"numpy format version {version}")
    shape, fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("it contains pickled objects, which poli never loads")
    count = 1
    for extent in shape:
        count *= int(extent)
    left = size - file.tell()
    if count < 0 or count * dtype.itemsize != left or (count and not dtype.itemsize):
        raise ValueError(f"the header declares {count * dtype.itemsize} bytes, but {left} follow")
    data = np.empty(left, np.uint8)
    view = memoryview(data)  # type: ignore[arg-type]
    at = 0
    while at < left:
        read = file.readinto(view[at : at + _STEP])
        if not read:
            raise EOFError("truncated")
        at += read
    file.read(1)  # reaching the end makes zipfile verify the checksum
    return np.ndarray(shape, dtype, data, order="F" if fortran else "C")

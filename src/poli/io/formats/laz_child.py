"""Run as a script by `las.py`: decompress the points of the LAZ file on standard input to standard output.

It does not import poli, so it starts quickly.
"""

import os
import sys

_AT_ONCE = 1 << 24  # bytes of points per step
_ROOM = 2 << 30  # bytes of address space on top of the points themselves


def main() -> None:
    """Decompress the points that the arguments describe: the LASzip record, offset, number, and bytes per point."""
    how, start, count, width = bytes.fromhex(sys.argv[1]), *map(int, sys.argv[2:])
    import lazrs

    _limit_memory(_ROOM + 4 * count * width)
    if lazrs.LazVlr(how).item_size() != width:
        raise ValueError("the point size differs from that in the header")
    source = os.fdopen(0, "rb")
    source.seek(start)
    decompressor = lazrs.ParLasZipDecompressor(source, how)
    with os.fdopen(1, "wb") as out:
        for first in range(0, count, _AT_ONCE // width):
            piece = bytearray(min(count - first, _AT_ONCE // width) * width)
            decompressor.decompress_many(piece)
            out.write(piece)


def _limit_memory(more: int) -> None:
    """Limit the address space on Linux, so that a damaged length raises an error instead of exhausting the memory."""
    try:
        import resource

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.getrlimit(resource.RLIMIT_AS)[1]))
    except (ImportError, OSError, ValueError):  # another system, or a lower limit
        return


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:  # Rust panics derive directly from BaseException
        print(f"{type(error).__name__}: {str(error)[:300]}".replace("\n", " "), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)

"""Run as a script by `laz_points`: decompress the points of the LAZ file on standard input to standard output.

Imports nothing of poli, so that it starts at once.
"""

import os
import sys

_AT_ONCE = 1 << 24  # bytes of points
_ROOM = 2 << 30  # bytes of address space beside what the points themselves take


def main() -> int:
    how, start, count, width = bytes.fromhex(sys.argv[1]), *map(int, sys.argv[2:])
    import lazrs

    _limit_memory(_ROOM + 4 * count * width)
    if lazrs.LazVlr(how).item_size() != width:
        print("points of another size than the header says", file=sys.stderr)
        return 1
    source = os.fdopen(0, "rb")
    source.seek(start)
    decompressor = lazrs.ParLasZipDecompressor(source, how)
    with os.fdopen(1, "wb", buffering=0) as out:
        left = count
        while left:
            points = min(left, max(1, _AT_ONCE // width))
            piece = bytearray(points * width)
            decompressor.decompress_many(piece)
            view = memoryview(piece)
            while view:
                view = view[out.write(view) :]
            left -= points
    return 0


def _limit_memory(more: int) -> None:
    """So that a damaged length ends in an error and not in a machine without memory."""
    try:
        import resource
    except ImportError:  # Windows
        return
    try:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        used = 1 << 30
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted = used + more
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


if __name__ == "__main__":
    try:
        code = main()
    except BaseException as error:  # panics of Rust derive from it alone
        print(f"{type(error).__name__}: {str(error)[:300]}".replace("\n", " "), file=sys.stderr)
        code = 1
    os._exit(code)

"""Run as a script by `laz_points`: decompress the points of the LAZ file on standard input to standard output.

It does not import poli, so it starts quickly.
"""

import os
import sys

_AT_ONCE = 1 << 24  # bytes of points per step
_ROOM = 2 << 30  # bytes of address space on top of the points themselves


def main() -> int:
    how, start, count, width = bytes.fromhex(sys.argv[1]), *map(int, sys.argv[2:])
    import lazrs

    _limit_memory(_ROOM + 4 * count * width)
    if lazrs.LazVlr(how).item_size() != width:
        print("the point size differs from that in the header", file=sys.stderr)
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
    """Limit the address space, so that a damaged length raises an error instead of exhausting the memory."""
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
    except BaseException as error:  # Rust panics derive directly from BaseException
        print(f"{type(error).__name__}: {str(error)[:300]}".replace("\n", " "), file=sys.stderr)
        code = 1
    os._exit(code)

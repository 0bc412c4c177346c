"""Generated object code, kept for later processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex


def cached(key: str, make: Callable[[], bytes]) -> bytes:
    """What was made for this key before; else it is made now, and kept if there is a folder that can be written to."""
    name = f"poli-{sha256(key.encode()).hexdigest()[:32]}.o"
    with suppress(OSError, RuntimeError):  # not there yet, or no home to have a cache in
        content = (_folder() / name).read_bytes()
        digest, code = content[:32], content[32:]
        if sha256(code).digest() == digest:  # LLVM trusts what it is given
            return code
    code = make()
    with suppress(OSError, RuntimeError):
        _write(_folder() / name, sha256(code).digest() + code)
    return code


def _folder() -> Path:
    """Numba's, if one was chosen for it; else our own in the user's cache."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "poli"


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all: other processes may be reading."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{token_hex(8)}.o")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

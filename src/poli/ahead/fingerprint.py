"""What sources a kernel was compiled from: code that was made of others must never run."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

PACKAGE = Path(__file__).parent.parent


def fingerprint(sources: Iterable[str]) -> str:
    """Of the text of these files, given by their paths within the package."""
    total = sha256()
    for source in sorted(sources):
        text = (PACKAGE / source).read_bytes().replace(b"\r\n", b"\n")  # some checkouts change line ends
        total.update(f"{source} {len(text)}\n".encode() + text)
    return total.hexdigest()

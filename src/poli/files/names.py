"""Names of files as text that can be written down: a file may be called by bytes that are no UTF-8."""

import re

_SURROGATES = re.compile("[\ud800-\udfff]")  # what Python makes of such bytes; no file can hold them


def writable(text: str) -> str:
    """The same text with a replacement character for every byte that is none."""
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)

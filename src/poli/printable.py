"""Make text from data files safe to print on a terminal.

Names of files, fields and topics may contain anything: escape sequences that set the terminal's title or clear its screen, marks
that reverse the writing direction, bytes that are not UTF-8. They are printed as Python escapes, such as `\\x1b`.
"""


def printable(text: object, lines: bool = False) -> str:
    """Return `text` with everything escaped that a terminal would interpret. With `lines`, line feeds and tabs are kept."""
    text = str(text)
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # Python's surrogate escape of a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")

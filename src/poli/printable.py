"""Text that came with the data, made fit for a terminal.

Names of files, fields and topics may hold anything: sequences that set a terminal's title or clear its screen, marks that reverse
the direction of writing, bytes that are no UTF-8. They are shown as Python would write them, `\\x1b` for an escape.
"""


def printable(text: object, lines: bool = False) -> str:
    """`text` without anything that a terminal would act on. With `lines`, line feeds and tabs stay."""
    text = str(text)
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python carries a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")

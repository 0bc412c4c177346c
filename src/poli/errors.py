"""Errors and warnings. `PoliError` is the base of all errors; only the command line prints and exits."""

from collections.abc import Iterable


class PoliError(Exception):
    """Base class of all errors that this library raises on purpose.

    The message names the input, says what is wrong and, if known, what to do. It names arguments as Python keywords, such as
    `voxel=0.5`; the command line spells those of its options as `--voxel 0.5`.
    """

    def about(self, name: object) -> None:
        """Prefix the message with the name of an input, unless it already starts with it."""
        if not str(self).startswith(str(name)):
            self.args = (f"{name}: {self}", *self.args[1:])


class InputError(PoliError, ValueError):
    """An argument has the wrong shape, type or value."""


class FormatError(PoliError):
    """A file is damaged, has an unexpected format, or its format cannot store the data."""


class WriteError(FormatError):
    """A file cannot be written: the disk is full, permission is denied, or a limit is reached."""


class DegenerateError(PoliError):
    """The input is well formed but does not determine the answer (collinear points, singular weights, ...)."""


class DensityWarning(UserWarning):
    """A cloud is too small, or denser or sparser than the model's training data; the ellipsoids may be inaccurate."""


class DoubtfulPose(UserWarning):
    """A pose was found, but it is probably wrong; the scans may show different places or be too far apart."""


class ViewpointWarning(UserWarning):
    """Points are not visible from the assumed sensor position; the ellipsoids may be inaccurate."""


class MissingExtra(PoliError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return how to install an extra: from a package index, or in a clone of the repository."""
    return f"pip install 'poli[{extra}]' (in a clone: pip install '.[{extra}]')"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return "; did you mean NAME?" with the known name closest to `name`, or "" if none is close."""
    from difflib import get_close_matches

    near = get_close_matches(str(name).lower(), list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def printable(text: object, lines: bool = False) -> str:
    """Return `text` with everything escaped that a terminal would interpret, such as `\\x1b` in the name of a file or a field.

    With `lines`, line feeds and tabs are kept."""
    text = str(text)
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode("ascii") for c in text)

"""Errors and warnings. `PoliError` is the base of all errors; only the command line prints and exits."""

from collections.abc import Iterable


class PoliError(Exception):
    """Base class of all errors that this library raises on purpose.

    `message` names the input and says what is wrong. If an argument is wrong or is the remedy, `argument` is its name and `value`
    the suggested value, if known. The placeholder {argument} becomes the name in `message`, and the name and value in `remedy`.
    `str` spells them as Python keywords; a front end replaces them with its option names by calling `respell`.
    """

    def __init__(self, message: str = "", *, argument: str | None = None, value: object = None, remedy: str | None = None) -> None:
        self.message, self.argument, self.value = message, argument, value
        self.remedy = ("" if argument is None else f"pass {_HERE}") if remedy is None else remedy
        super().__init__(self._spelled(*_in_python(argument, value)))

    def about(self, name: object) -> None:
        """Prefix the message with the name of an input, unless it already starts with it."""
        if not self.message.startswith(str(name)):
            self.message = f"{name}: {self.message}"
            self.args = (f"{name}: {self.args[0]}",)

    def respell(self, name: str | None, given: str = "") -> None:
        """Write the argument as `name` in the message and as `given` in the remedy. If `name` is None, drop the remedy."""
        if self.argument is None:
            return
        if name is None:
            name, self.remedy = self.argument, ""
        self.args = (self._spelled(name, given),)
        self.message, self.argument, self.value, self.remedy = self.args[0], None, None, ""

    def _spelled(self, name: str, given: str) -> str:
        message = self.message if self.argument is None else self.message.replace(_HERE, name)
        return f"{message}; {self.remedy.replace(_HERE, given)}" if self.remedy else message


_HERE = "{argument}"


def _in_python(argument: str | None, value: object) -> tuple[str, str]:
    """Return an argument's name and how to pass it: keywords as name=value, expressions unchanged."""
    if argument is None:
        return "", ""
    return argument, f"{argument}={'' if value is None else repr(value)}" if argument.isidentifier() else argument


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


# --- Make text from data files safe to print on a terminal.
#
# Names of files, fields and topics may contain anything: escape sequences that set the terminal's title or clear its screen,
# marks
# that reverse the writing direction, bytes that are not UTF-8. They are printed as Python escapes, such as `\x1b`.


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

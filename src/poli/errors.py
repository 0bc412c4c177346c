"""Errors and warnings of this library. Catch `PoliError` to catch every error; only the command line prints and exits."""

from collections.abc import Iterable


class PoliError(Exception):
    """Base of every error that this library raises on purpose.

    `message` says what is wrong and names the input. Where an argument is to blame or is the remedy, `argument` is its name and
    `value` what to give, if that is known. {argument} stands for its name in `message`, and for name and value in `remedy`.
    `str` spells them as Python does; a front end spells them as an option of its own with `respell`.
    """

    def __init__(self, message: str = "", *, argument: str | None = None, value: object = None, remedy: str | None = None) -> None:
        self.message, self.argument, self.value = message, argument, value
        self.remedy = ("" if argument is None else f"pass {_HERE}") if remedy is None else remedy
        super().__init__(self._spelled(*_in_python(argument, value)))

    def about(self, name: object) -> None:
        """Put the name of an input before the message, unless it begins with it."""
        if not self.message.startswith(str(name)):
            self.message = f"{name}: {self.message}"
            self.args = (f"{name}: {self.args[0]}",)

    def respell(self, name: str | None, given: str = "") -> None:
        """Call the argument `name` in the message and `given` in the remedy. None: there is no such argument, so no remedy."""
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
    """An argument's name, and how it is given: keywords with their value, expressions as they are."""
    if argument is None:
        return "", ""
    return argument, f"{argument}={'' if value is None else repr(value)}" if argument.isidentifier() else argument


class InputError(PoliError, ValueError):
    """An argument has the wrong shape, type or value."""


class FormatError(PoliError):
    """A file is damaged, is not what its name says, or cannot hold what it should."""


class WriteError(FormatError):
    """A file cannot be written where it should: no room, no permission, or a limit."""


class DegenerateError(PoliError):
    """The input is well formed but does not determine the answer (collinear points, singular weights, ...)."""


class DensityWarning(UserWarning):
    """A cloud is denser or sparser than what a model has learned from, or too small; the ellipsoids may be bad."""


class DoubtfulPose(UserWarning):
    """A pose was found, but hardly a wall of one scan lies on one of the other; they may be of different places."""


class ViewpointWarning(UserWarning):
    """Points lie where a sensor at the place it is taken to be cannot have seen them; the ellipsoids may be bad."""


class MissingExtra(PoliError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency: pip install 'poli[{extra}]'")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """For the end of a message about an unknown name: the nearest that there is, if any is near."""
    from difflib import get_close_matches

    near = get_close_matches(str(name).lower(), list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""

"""What this library raises, and what it warns of. Catch `PoliError` to catch all of it; only the command line prints and exits."""

from collections.abc import Iterable


class PoliError(Exception):
    """Base of every error that this library raises on purpose."""


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

"""What this library raises, and what it warns of. Catch `PoliError` to catch all of it; only the command line prints and exits."""


class PoliError(Exception):
    """Base of every error that this library raises on purpose."""


class InputError(PoliError, ValueError):
    """An argument has the wrong shape, type or value."""


class FormatError(PoliError):
    """A file is damaged, is not what its name says, or cannot hold what it should."""


class DegenerateError(PoliError):
    """The input is well formed but does not determine the answer (collinear points, singular weights, ...)."""


class DensityWarning(UserWarning):
    """A cloud is denser or sparser than what a model has learned from, or too small; the ellipsoids may be bad."""


class DoubtfulPose(UserWarning):
    """A pose was found, but hardly a wall of one scan lies on one of the other; they may be of different places."""


class MissingExtra(PoliError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency: pip install 'poli[{extra}]'")

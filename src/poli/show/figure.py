"""matplotlib, where it is installed."""

from pathlib import Path
from types import ModuleType
from typing import Any

from poli.errors import MissingExtra
from poli.files.atomic import atomic_path


def pyplot() -> ModuleType:
    """matplotlib without a screen."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("plotting", "bench") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def save_figure(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=120, bbox_inches="tight")

"""`poli --version`: print the version and check that the installation works."""

from poli.cli.output import say

_FARTHEST_OFF = 5.0  # degrees, maximum error of the median normal of flat ground


def print_version() -> None:
    import platform
    import sys

    import numpy as np

    import poli
    from poli.errors import PoliError
    from poli.estimation.estimate import shipped_models
    from poli.kernel import kernel_cache

    say(f"poli {poli.__version__}")
    say(f"python {platform.python_version()}, numpy {np.__version__}, {sys.platform} {platform.machine()}")
    folder, trouble = kernel_cache()
    say(f"kernels: not cached: {trouble}" if trouble else f"kernels: cached in {folder}")
    if not _are_compiled():
        say(f"models: {', '.join(shipped_models())}; not tested, since their kernels are not compiled yet; run `poli warmup`")
        return
    angles = {name: _degrees_off(name) for name in shipped_models()}
    wrong = [name for name, angle in angles.items() if not angle < _FARTHEST_OFF]
    if wrong or not angles:
        what = f"model {wrong[0]} estimates wrong normals on flat ground" if wrong else "its models are missing"
        raise PoliError(f"this installation does not work: {what}; reinstall poli")
    checked = (f"{name} (flat ground: normal error {angle:.2f} degrees)" for name, angle in angles.items())
    say(f"models: {', '.join(checked)}")


def _are_compiled() -> bool:
    """Whether the last kernel of an estimate is in the cache."""
    from pathlib import Path

    from poli.estimation.runtime.scale import size

    folder = size.stats.cache_path
    return folder is not None and any(Path(folder).glob("scale.size-*.nbc"))


def _degrees_off(model: str) -> float:
    """Median normal error on flat ground, as seen by a sensor 1.8 m above it, in degrees."""
    import numpy as np

    from poli.estimation import estimate

    rng = np.random.default_rng(0)
    distance, azimuth = rng.uniform(4.0, 12.0, 300), rng.uniform(-np.pi, np.pi, 300)
    height = rng.normal(-1.8, 0.01, 300)
    points = np.stack([distance * np.cos(azimuth), distance * np.sin(azimuth), height], axis=1)  # (300, 3)
    up = np.abs(estimate(points, model=model).normals[:, 2])  # (300,)
    return float(np.degrees(np.median(np.arccos(np.clip(up, 0.0, 1.0)))))

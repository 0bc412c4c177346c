"""`poli warmup`: compile all kernels ahead of use."""

from typing import Any

from poli.cli.output import say


def warmup() -> dict[str, Any]:
    """Compile all kernels and cache them, so that no later command waits for the compiler.

    Takes about a minute the first time, and seconds once everything is cached. Run it when
    an image is built or a robot is installed, as the user who runs poli later.

    Examples:
    poli warmup
    """
    from poli.errors import PoliError
    from poli.kernel import kernel_cache
    from poli.warmup import warm_up

    folder, trouble = kernel_cache()
    if trouble:
        raise PoliError(f"kernels cannot be cached: {trouble}")
    say(f"compiling kernels into {folder}")
    warm_up(say)
    return {"folder": folder}

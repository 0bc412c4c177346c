"""Everything that needs torch (the extra `train`)."""

from importlib.util import find_spec

from poli.errors import MissingExtra

# Checked here once for all modules of this package, without importing torch: reading a configuration should not wait for it.
if find_spec("torch") is None:
    raise MissingExtra("poli.train", "train")

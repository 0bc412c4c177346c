"""Everything that needs torch (the extra `train`)."""

from importlib.util import find_spec

from poli.errors import MissingExtra

# Looked for here, once for all modules below, and not imported: a configuration is read faster than torch.
if find_spec("torch") is None:
    raise MissingExtra("poli.learn", "train")

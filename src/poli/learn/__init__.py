"""Everything that needs torch (the extra `train`)."""

"""Files, datasets and bags, atomic writes, and limits on what an untrusted file may claim."""

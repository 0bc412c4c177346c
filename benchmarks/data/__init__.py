"""Input data of the experiments."""

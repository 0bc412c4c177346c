"""What the experiments run on."""

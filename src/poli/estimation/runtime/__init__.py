"""The trained network as fused kernels, torch-free. `forward` runs it."""

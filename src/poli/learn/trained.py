"""The reference network with the weights of a trained model."""

from __future__ import annotations

from poli.errors import MissingExtra
from poli.estimation.model import Model
from poli.learn.export import import_model
from poli.learn.network import Network

try:
    import torch
except ImportError:
    raise MissingExtra("poli.learn", "train") from None


def network_of(model: Model) -> Network:
    """On the CPU, for inference. The caller's random numbers are left alone: first weights are drawn, then overwritten."""
    with torch.random.fork_rng(devices=[]):
        network = Network(model.architecture)
    import_model(model, network)
    return network.eval().requires_grad_(False)

"""Distillation: a larger network, trained by the same loss, teaches the one that ships.

The student's ellipsoid N(0, C_s) is fitted to the teacher's N(0, C_t) by the cross entropy, without its constant,

    1/2 [log|C_s| + tr(C_s^-1 C_t)],

which is the likelihood of residuals drawn from the teacher: what matches say with noise, the teacher says without. A student of a
self-supervised teacher is still self-supervised.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from poli.errors import InputError
from poli.estimation.architecture import Architecture
from poli.learn import matrices3
from poli.learn.groups import GroupBatch
from poli.learn.network import Network

# Settings that both must share, as they decide what a batch contains; the widths of the layers may differ.
_WIDTHS = (
    "edge", "scalars", "vectors", "head", "attention", "heads", "rounds", "size", "motion", "pair", "curvature",
    "curvature_wide", "floor",
)  # fmt: skip


class Teacher:
    """A trained network whose shapes another learns."""

    def __init__(self, network: Network, student: Architecture) -> None:
        """`network` is that of a trained model (`model_file.network_of`)."""
        if replace(network.architecture, **{name: getattr(student, name) for name in _WIDTHS}) != student:
            raise InputError(
                "teacher: it groups points in another way; make neighbors, reach, wide, interpolated, frames, log_scale and sensor "
                "of this architecture equal to the teacher's"
            )
        self._network = network

    def cross_entropy(self, batch: GroupBatch, L: torch.Tensor) -> torch.Tensor:  # (N, 3, 3) -> ()
        """Return the mean over points of the student's cross entropy; L as in `Network.forward`."""
        with torch.no_grad():
            taught = self._network.to(L.device)(batch).double()
        ours = L.double()
        stretched = matrices3.inverse(ours) @ taught
        return (ours.diagonal(dim1=1, dim2=2).log().sum(1) + 0.5 * stretched.square().sum((1, 2))).mean()

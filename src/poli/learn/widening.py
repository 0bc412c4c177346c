"""Start a wide network as the same function as a trained narrow one (Chen et al., "Net2Net", 2016).

Units of the narrow network keep their weights and read nothing from the new units. New units start at random, and what reads them
learns from the first step on. A wide network thus starts where the narrow one ended, so that more training of the one compared with
more training of the other shows what width buys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from poli.estimation.architecture import RESIDUALS, Architecture
from poli.estimation.grid import GRID_INPUTS, SHIFT_INPUTS
from poli.estimation.motion import MOTION_INPUTS

# Settings of layers that may become wider. Heads of attention may not: a new one would add its moments to the ellipsoid.
_WIDTHS = ("edge", "scalars", "head", "attention")
# Parts that start over if their settings differ; `pair`, which replaces `size` for known poses, starts as its copy.
_LAST = {"size": ("size", "motion"), "pair": ("pair", "motion"), "bend": ("curvature", "curvature_wide")}


def may_widen(narrow: Architecture, wide: Architecture) -> bool:
    """Whether `wide` has the structure of `narrow`, with layers that are as wide or wider."""
    free = {name: getattr(wide, name) for name in (*_WIDTHS, *_LAST["size"], *_LAST["pair"], *_LAST["bend"])}
    widths = [np.atleast_1d(getattr(a, name)) for name in _WIDTHS for a in (narrow, wide)]
    return replace(narrow, **free) == wide and all((a <= b).all() for a, b in zip(widths[::2], widths[1::2], strict=True))


def widened(
    narrow: Architecture, wide: Architecture, weights: Mapping[str, np.ndarray], drawn: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return the weights of the wide network, by the names of a model file.

    Args:
        narrow: the architecture of `weights`.
        wide: the architecture of the result (`may_widen`).
        weights: those of the narrow network.
        drawn: random weights of the wide network, for its new units.
    """
    ours, theirs = _blocks(wide), _blocks(narrow)
    over = [part for part, names in _LAST.items() if any(getattr(narrow, name) != getattr(wide, name) for name in names)]
    result = dict(drawn)
    for name in ours:
        if name.split(".")[0] in over:
            continue
        columns, rows = (_places(old, new) for old, new in zip(theirs[name], ours[name], strict=True))
        weight, bias = (drawn[f"{name}.{kind}"].clone() for kind in ("weight", "bias"))
        weight[rows] = 0.0
        weight[np.ix_(rows, columns)] = torch.from_numpy(weights[f"{name}.weight"].copy())
        bias[rows] = torch.from_numpy(weights[f"{name}.bias"].copy())
        result |= {f"{name}.weight": weight, f"{name}.bias": bias}
    if "pair" in over and 0 < wide.size <= wide.pair:
        for kind in ("hidden", "out"):
            weight, bias = (drawn[f"pair.{kind}.{part}"].clone() for part in ("weight", "bias"))
            copied = result[f"size.{kind}.weight"]
            units, inputs = copied.shape
            weight[:units] = 0.0
            weight[:units, :inputs], bias[:units] = copied, result[f"size.{kind}.bias"]
            result |= {f"pair.{kind}.weight": weight, f"pair.{kind}.bias": bias}
    return result


def _places(old: list[int], new: list[int]) -> np.ndarray:
    """Where the old units are among the new ones: at the beginning of each block."""
    begins = np.concatenate([[0], np.cumsum(new)[:-1]]).astype(int)
    return np.concatenate([begin + np.arange(width) for begin, width in zip(begins, old, strict=True)])


def _blocks(a: Architecture) -> dict[str, tuple[list[int], list[int]]]:
    """The widths of the features that every linear map reads and writes: `Architecture.linear_shapes` in its parts."""
    parts: dict[str, list[int]] = {}
    turned = 3 * a.vectors
    for level, (edge, scalars) in enumerate(zip(a.edge, a.scalars, strict=True)):
        below = [a.scalars[level - 1], turned] if level else [a.context]
        parts[f"down{level}.node"] = [edge, edge, *below]
        parts[f"down{level}.place"] = [3, turned] if level else [9]
        parts[f"up{level}.node"] = [scalars, scalars, turned]
        parts[f"up{level}.place"] = [3, turned]
    known, residuals = [a.scalars[0], a.context, 3], [RESIDUALS] if a.curvature_wide else []
    parts["size.hidden"], parts["bend.hidden"] = [*known, *([MOTION_INPUTS] if a.motion else [])], [*known, *residuals]
    parts["pair.hidden"] = [*known, MOTION_INPUTS, GRID_INPUTS, SHIFT_INPUTS]
    blocks = {}
    for name, (inputs, outputs) in a.linear_shapes().items():
        part, kind = name.split(".")
        split = turned if kind == "node" and not (part.startswith("up0")) else 0  # scalars, then vectors
        read, written = parts.get(name, [inputs]), [outputs - split, split] if split else [outputs]
        assert sum(read) == inputs, name
        blocks[name] = (read, written)
    return blocks

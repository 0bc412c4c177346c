"""How a point reads the next coarser level: from the nearest of its lead and the lead's neighbors, by inverse distance."""

import numpy as np

from poli.kernel import kernel

CANDIDATES = 8  # neighbors of a lead on the coarse level; the points of a cell choose among these and the lead when interpolating


@kernel
def interpolation_weights(fine, i, lead, coarse, near, radius, chosen, weights):
    """Write the nearest coarse points of fine point i, among its lead and the lead's neighbors, to `chosen`, and their normalized
    inverse-distance weights to `weights`."""
    count, filled = len(chosen), 0
    for j in range(-1, min(near.shape[1], CANDIDATES)):
        n = lead if j < 0 else near[lead, j]
        d = (coarse[n, 0] - fine[i, 0]) ** 2 + (coarse[n, 1] - fine[i, 1]) ** 2 + (coarse[n, 2] - fine[i, 2]) ** 2
        if filled < count or d < weights[count - 1]:
            p = min(filled, count - 1)
            while p > 0 and weights[p - 1] > d:
                weights[p], chosen[p] = weights[p - 1], chosen[p - 1]
                p -= 1
            weights[p], chosen[p] = d, n
            filled = min(filled + 1, count)
    total = 0.0
    for j in range(count):
        weights[j] = 1.0 / (np.sqrt(weights[j]) + 0.1 * radius)  # softened: a lead, at distance zero, also uses the others
        total += weights[j]
    for j in range(count):
        weights[j] /= total

"""Animals and figures: bipeds, quadrupeds, serpents and branching shapes, each built around a random skeleton."""

import numpy as np

from poli.data.shapes.draws import chance, log_uniform, smooth_curve
from poli.data.shapes.implicit import Field
from poli.data.shapes.skeleton import Skeleton, add_fingers, add_head, add_spikes, add_tail, add_wings, bone


def creature(rng: np.random.Generator) -> Field:
    plan = rng.choice(["biped", "quadruped", "serpent", "tree"], p=[0.3, 0.3, 0.25, 0.15])
    skeleton = Skeleton()
    {"biped": add_biped, "quadruped": _add_quadruped, "serpent": _add_serpent, "tree": _add_tree}[plan](skeleton, rng)
    return skeleton.figure(rng, log_uniform(rng, 0.03, 0.18))


def add_biped(skeleton: Skeleton, rng: np.random.Generator) -> None:
    stout = rng.uniform(0.7, 1.4)
    hips, chest = np.array([0.0, 0.0, -0.05]), np.array([rng.normal(0, 0.04), rng.normal(0, 0.06), 0.4])
    neck = chest + np.array([0.0, rng.normal(0, 0.04), 0.17])
    girth = np.array([0.16, 0.13 * rng.uniform(0.8, 1.5), 0.18, 0.07]) * stout
    skeleton.limb(np.stack([hips, 0.5 * (hips + chest), chest, neck]), girth)
    add_head(skeleton, rng, neck + np.array([0.0, -0.03, 0.1]), rng.uniform(0.1, 0.17), np.array([0.0, -1.0, -0.1]))
    for side in (-1.0, 1.0):
        shoulder = chest + np.array([side * 0.17 * stout, 0.0, 0.07])
        elbow = shoulder + bone(rng, np.array([side * 0.7, -0.2, -0.5]), 0.27, 0.6)
        hand = elbow + bone(rng, np.array([side * 0.3, -0.7, 0.0]), 0.26, 0.7)
        skeleton.limb(np.stack([chest, shoulder, elbow, hand]), np.array([0.11, 0.09, 0.07, 0.05]) * stout)
        add_fingers(skeleton, rng, hand, hand - elbow, 0.045 * stout)
        knee = hips + np.array([side * 0.12 * stout, 0.0, 0.0]) + bone(rng, np.array([side * 0.2, -0.3, -1.0]), 0.4, 0.3)
        foot = knee + bone(rng, np.array([side * 0.05, 0.2, -1.0]), 0.4, 0.2)
        toe = foot + np.array([side * 0.04, -0.16, -0.03])
        skeleton.limb(np.stack([hips, knee, foot, toe]), np.array([0.14, 0.09, 0.055, 0.045]) * stout)
    if chance(rng, 0.4):
        add_tail(skeleton, rng, hips, np.array([0.0, 1.0, -0.2]), 0.09 * stout)
    if chance(rng, 0.4):
        add_wings(skeleton, rng, chest + np.array([0.0, 0.1, 0.05]))
    if chance(rng, 0.3):
        add_spikes(skeleton, rng, np.stack([hips, chest, neck]), np.array([0.0, 1.0, 0.2]), 0.16 * stout)


def _add_quadruped(skeleton: Skeleton, rng: np.random.Generator) -> None:
    length, girth, leg = rng.uniform(0.35, 0.6), rng.uniform(0.13, 0.26), rng.uniform(0.25, 0.55)
    control = np.array([[0, length, 0], [0, 0, rng.normal(0, 0.08)], [0, -length, 0.05]]) + rng.normal(0, 0.03, (3, 3))
    spine = smooth_curve(control, 6)
    skeleton.limb(spine, girth * rng.uniform(0.75, 1.2, 6))
    neck = spine[-1] + bone(rng, np.array([0.0, -0.6, 0.8]), rng.uniform(0.15, 0.4), 0.4)
    skeleton.limb(np.stack([spine[-1], neck]), np.array([0.8, 0.5]) * girth)
    add_head(skeleton, rng, neck, rng.uniform(0.09, 0.15), np.array([rng.normal(0, 0.3), -1.0, -0.2]))
    for end, bend in ((spine[-2], 1.0), (spine[1], -1.0)):
        for side in (-1.0, 1.0):
            hip = end + np.array([side * 0.6 * girth, 0.0, -0.2 * girth])
            knee = hip + bone(rng, np.array([side * 0.3, 0.3 * bend, -1.0]), 0.5 * leg + 0.06, 0.3)
            foot = knee + bone(rng, np.array([0.0, -0.3 * bend, -1.0]), 0.5 * leg + 0.06, 0.25)
            skeleton.limb(np.stack([end, hip, knee, foot]), girth * np.array([0.7, 0.6, 0.38, 0.25]))
            add_fingers(skeleton, rng, foot, np.array([0.0, -1.0, -0.1]), 0.2 * girth)
    if chance(rng, 0.8):
        add_tail(skeleton, rng, spine[0], np.array([0.0, 1.0, 0.2]), 0.5 * girth)
    if chance(rng, 0.3):
        add_wings(skeleton, rng, spine[-2] + np.array([0.0, 0.0, 0.7 * girth]))
    if chance(rng, 0.4):
        add_spikes(skeleton, rng, spine, np.array([0.0, 0.3, 1.0]), girth)


def _add_serpent(skeleton: Skeleton, rng: np.random.Generator) -> None:
    """A long winding body, like the Chinese dragon's, in coils that come close to each other."""
    turns, girth = rng.uniform(0.8, 2.2), rng.uniform(0.09, 0.17)
    progress = np.linspace(0.0, 1.0, 9)
    wave, lift = rng.uniform(0.15, 0.4), rng.uniform(0.05, 0.3)
    control = np.stack(
        [wave * np.sin(2 * np.pi * turns * progress), 1.5 * progress - 0.75, lift * np.cos(2 * np.pi * turns * 1.3 * progress)],
        axis=1,
    )
    control += rng.normal(0.0, 0.05, control.shape)
    spine = smooth_curve(control, 36)
    fat = np.sin(np.pi * np.linspace(0.12, 0.97, 36)) ** rng.uniform(0.4, 0.8)
    skeleton.limb(spine, girth * np.maximum(fat, 0.22))
    add_head(skeleton, rng, spine[0], 1.1 * girth, spine[0] - spine[3])
    for at in (9, 22):
        for side in (-1.0, 1.0):
            across = np.array([side, 0.0, -0.2])
            elbow = spine[at] + bone(rng, across, 0.2, 0.5)
            foot = elbow + bone(rng, np.array([0.2 * side, -0.3, -1.0]), 0.2, 0.4)
            skeleton.limb(np.stack([spine[at], elbow, foot]), girth * np.array([0.7, 0.5, 0.3]))
            add_fingers(skeleton, rng, foot, np.array([0.0, -1.0, 0.0]), 0.25 * girth)
    if chance(rng, 0.7):
        add_spikes(skeleton, rng, spine[2:34], np.array([0.0, 0.3, 1.0]), girth)
    if chance(rng, 0.4):
        add_wings(skeleton, rng, spine[12])


def _add_tree(skeleton: Skeleton, rng: np.random.Generator) -> None:
    """Repeatedly branching limbs: corals, antlers, roots."""
    tips = [(np.array([0.0, 0.0, -0.7]), np.array([0.0, 0.0, 1.0]), 0.5, rng.uniform(0.1, 0.2))]
    for _ in range(int(rng.integers(3, 5))):
        grown = []
        for start, heading, length, radius in tips:
            middle = start + bone(rng, heading, 0.5 * length, 0.3)
            end = middle + bone(rng, heading, 0.5 * length, 0.3)
            skeleton.limb(np.stack([start, middle, end]), radius * np.array([1.0, 0.85, 0.75]))
            for _ in range(int(rng.integers(2, 4))):
                branch = heading + 0.8 * rng.normal(size=3)
                grown.append((end, branch / np.linalg.norm(branch), 0.75 * length, max(0.65 * radius, 0.025)))
        tips = grown[:14]

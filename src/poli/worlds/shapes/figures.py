"""Animals and figures: bipeds, quadrupeds, serpents and branching shapes, each built around a random skeleton."""

from dataclasses import dataclass, field

import numpy as np

from poli.worlds.shapes import fields, relief
from poli.worlds.shapes.fields import Field
from poli.worlds.shapes.relief import chance, direction, log_uniform, outline, smooth_curve, with_skin


@dataclass
class Skeleton:
    """Limbs (tapered capsules) and skin between them. x points to the left of the figure, y behind it, z up."""

    ends: list[np.ndarray] = field(default_factory=list)  # (2, 3) each
    radii: list[tuple[float, float]] = field(default_factory=list)
    skins: list[np.ndarray] = field(default_factory=list)  # (3, 3) triangles

    def limb(self, path: np.ndarray, radii: np.ndarray) -> None:  # (K, 3), (K,)
        """Add a chain of capsules along `path`."""
        for k in range(len(path) - 1):
            self.ends.append(path[k : k + 2])
            self.radii.append((float(radii[k]), float(radii[k + 1])))

    def figure(self, rng: np.random.Generator, blend: float) -> Field:
        """Return the solid around the bones, with strong relief on the flesh and too little on the thin skins to pierce them."""
        flesh = with_skin(fields.limbs(np.array(self.ends), np.array(self.radii), blend), rng)
        if not self.skins:
            return flesh
        skins = fields.membranes(np.array(self.skins), rng.uniform(0.045, 0.075))
        wavelength = rng.uniform(0.1, 0.25)
        return fields.union(
            [flesh, fields.embossed(skins, relief.folds(rng, wavelength, direction(rng)), rng.uniform(0.0, 0.012))], 0.04
        )


def bone(rng: np.random.Generator, towards: np.ndarray, length: float, spread: float) -> np.ndarray:
    """A random vector of this length, roughly along `towards`."""
    turned = towards / np.linalg.norm(towards) + spread * rng.normal(size=3) / np.sqrt(3.0)
    return length * turned / np.linalg.norm(turned)


def add_head(skeleton: Skeleton, rng: np.random.Generator, at: np.ndarray, size: float, gaze: np.ndarray) -> None:
    """Add a head with jaws, and ears, horns or a crest."""
    gaze = gaze / np.linalg.norm(gaze)
    side = np.cross(gaze, [0.0, 0.0, 1.0])
    side /= np.linalg.norm(side) + 1e-9
    up = np.cross(side, gaze)
    skeleton.limb(np.stack([at, at + 0.3 * size * gaze]), np.array([size, 0.85 * size]))
    snout = rng.uniform(0.2, 2.0) * size
    gape = rng.uniform(0.0, 0.6)
    for tilt in (gape, -gape):  # two jaws
        skeleton.limb(
            np.stack([at + 0.4 * size * gaze, at + (size + snout) * gaze + tilt * snout * up]), size * np.array([0.5, 0.25])
        )
    kind = rng.choice(["ears", "horns", "crest", "bald"])
    for sign in (-1.0, 1.0):
        root = at + 0.7 * size * up + sign * 0.5 * size * side
        tip = root + size * rng.uniform(0.5, 1.4) * (up + 0.6 * sign * side - 0.4 * gaze)
        if kind == "horns":
            bow = 0.5 * (root + tip) - 0.3 * size * gaze
            skeleton.limb(smooth_curve(np.stack([root, bow, tip]), 6), size * np.linspace(0.25, 0.1, 6))
        elif kind == "ears":
            skeleton.skins.append(np.stack([root - 0.3 * size * side, root + 0.3 * size * (side - gaze), tip]))
    if kind == "crest":
        top = at + 0.6 * size * up
        skeleton.skins.append(np.stack([top + 0.5 * size * gaze, top - size * gaze, top + 1.2 * size * up - 0.6 * size * gaze]))


def add_fingers(skeleton: Skeleton, rng: np.random.Generator, at: np.ndarray, heading: np.ndarray, radius: float) -> None:
    """Add fingers, toes or claws."""
    heading = heading / np.linalg.norm(heading)
    across = np.cross(heading, direction(rng))
    for spread in np.linspace(-0.7, 0.7, int(rng.integers(2, 5))):
        tip = at + rng.uniform(2.0, 3.5) * radius * (heading + spread * across)
        skeleton.limb(np.stack([at, tip]), np.array([0.9 * radius, max(0.5 * radius, 0.02)]))


def add_tail(skeleton: Skeleton, rng: np.random.Generator, at: np.ndarray, heading: np.ndarray, radius: float) -> None:
    """Add a winding tail."""
    length = rng.uniform(0.3, 0.9)
    control = [at]
    for _ in range(3):
        step = bone(rng, heading, length / 3.0, 0.8)
        control.append(control[-1] + step)
        heading = step / np.linalg.norm(step)
    path = smooth_curve(np.array(control), 12)
    skeleton.limb(path, np.linspace(radius, 0.025, 12))
    if chance(rng, 0.3):
        skeleton.skins.append(path[-1] + 0.15 * rng.normal(size=(3, 3)) * np.array([0.3, 1.0, 1.0]))


def add_wings(skeleton: Skeleton, rng: np.random.Generator, at: np.ndarray) -> None:
    """Add a bony arm with fingers and skin between them, and its mirror image."""
    span, rise, sweep = rng.uniform(0.35, 0.7), rng.uniform(-0.1, 0.6), rng.uniform(0.1, 0.5)
    wrist = np.array([0.55 * span, 0.3 * sweep, rise])
    tips = [
        np.array([span * np.cos(a), 0.2 + sweep, rise + span * np.sin(a) - 0.25])
        for a in np.linspace(0.5, -1.0, rng.integers(3, 6))
    ]
    for side in (-1.0, 1.0):
        mirror = np.array([side, 1.0, 1.0])
        joint = at + wrist * mirror
        ends = [at + (tip + rng.normal(0.0, 0.03, 3)) * mirror for tip in tips]
        skeleton.limb(np.stack([at, joint]), np.array([0.06, 0.04]))
        for end in ends:
            skeleton.limb(np.stack([joint, end]), np.array([0.035, 0.022]))
        for one, other in zip(ends, ends[1:] + [at + np.array([0.0, 0.1, -0.2])], strict=True):
            skeleton.skins.append(np.stack([joint, one, other]))
        skeleton.skins.append(np.stack([joint, at, at + np.array([0.0, 0.1, -0.2])]))


def add_spikes(skeleton: Skeleton, rng: np.random.Generator, spine: np.ndarray, up: np.ndarray, girth: float) -> None:
    """Add a row of spikes or fin plates along the spine, (K, 3)."""
    path = smooth_curve(spine, int(rng.integers(6, 14)))
    is_fin = chance(rng, 0.6)
    up = up / np.linalg.norm(up)
    for k in range(len(path) - 1):
        root, follower = path[k], path[k + 1]
        tip = 0.5 * (root + follower) + up * girth * rng.uniform(1.3, 1.9)
        if is_fin:
            skeleton.skins.append(np.stack([root, follower, tip]))
        else:
            skeleton.limb(np.stack([root, tip]), np.array([0.4 * girth, 0.022]))


def creature(rng: np.random.Generator) -> Field:
    """A biped, a quadruped, a serpent, or a branching shape."""
    plan = rng.choice(["biped", "quadruped", "serpent", "tree"], p=[0.3, 0.3, 0.25, 0.15])
    skeleton = Skeleton()
    {"biped": add_biped, "quadruped": _add_quadruped, "serpent": _add_serpent, "tree": _add_tree}[plan](skeleton, rng)
    return skeleton.figure(rng, log_uniform(rng, 0.03, 0.18))


def add_biped(skeleton: Skeleton, rng: np.random.Generator) -> None:
    """Add a figure on two legs."""
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


def statue(rng: np.random.Generator) -> Field:
    """A figure on a base, often in a robe that hangs in folds."""
    if chance(rng, 0.3):
        figure = creature(rng)
        return fields.union([figure, _base(rng, -0.62)], 0.03)
    skeleton = Skeleton()
    add_biped(skeleton, rng)
    parts = [skeleton.figure(rng, log_uniform(rng, 0.03, 0.1))]
    if chance(rng, 0.8):
        parts.append(_robe(rng))
    if chance(rng, 0.4):  # a belly
        radii = rng.uniform(0.16, 0.28, 3)
        parts.append(lambda points: fields.ellipsoid(radii)(points - np.array([0.0, -0.08, 0.12])))
    whole = fields.union(parts, rng.uniform(0.02, 0.07))
    if chance(rng, 0.5):
        axis = np.array([rng.normal(0, 0.6), rng.normal(0, 0.3), 1.0])
        wavelength = log_uniform(rng, 0.07, 0.25)
        whole = fields.embossed(whole, relief.folds(rng, wavelength, axis / np.linalg.norm(axis), 0.8, 1.5), 0.1 * wavelength)
    return fields.union([whole, _base(rng, -0.8)], 0.02)


def _robe(rng: np.random.Generator) -> Field:
    """A robe from the shoulders or hips to the ground, wider at the bottom, with pleats that deepen downwards."""
    top, bottom, wide = rng.uniform(0.0, 0.5), -0.82, rng.uniform(0.25, 0.5)
    heights = np.linspace(top, bottom, 5)
    widths = np.linspace(0.14, wide, 5) * rng.uniform(0.85, 1.15, 5)
    side = smooth_curve(np.stack([widths, heights], axis=1), 24)
    cloth = fields.revolution(np.concatenate([[[0.0, top]], side, [[0.0, bottom]]]))
    if chance(rng, 0.5):  # hollow at the bottom: the hem is a thin sheet around the legs
        thickness = rng.uniform(0.05, 0.09)
        solid = cloth
        hem = bottom + 0.04

        def hollow(points: np.ndarray) -> np.ndarray:
            d = solid(points)
            return np.maximum(np.maximum(d, -d - thickness), hem - points[:, 2])

        cloth = hollow
    depth = rng.uniform(0.02, 0.06)
    flat = rng.uniform(0.55, 1.0)
    waves = relief.pleats(rng, int(rng.integers(6, 22)))

    def draped(points: np.ndarray) -> np.ndarray:
        squeezed = points * np.array([1.0, 1.0 / flat, 1.0])  # people are wider than deep
        deeper = np.clip((top - points[:, 2]) / (top - bottom), 0.1, 1.0)
        return flat * (cloth(squeezed) - depth * deeper * waves(points))

    return draped


def _base(rng: np.random.Generator, ground: float) -> Field:
    """A plinth, a drum, a polygonal step or a rock."""
    half_height, radius = rng.uniform(0.04, 0.14), rng.uniform(0.35, 0.6)
    kind = rng.choice(["plinth", "steps", "polygon", "rock"])
    if kind == "plinth":
        solid = fields.rounded_box(np.array([radius, radius * rng.uniform(0.6, 1.0), half_height]), 0.01)
    elif kind == "steps":
        steps = np.array([[0, 1], [0.75, 1], [0.75, 0.2], [0.9, 0.2], [0.9, -0.4], [1, -0.4], [1, -1], [0, -1]])
        solid = fields.revolution(steps * np.array([radius, half_height]))
    elif kind == "polygon":
        solid = fields.extrusion(outline(rng, radius), half_height)
    else:
        rock = fields.embossed(fields.ellipsoid(np.array([radius, radius, 2.0 * half_height])), relief.ridges(rng, 0.35, 3), 0.03)
        solid = fields.intersection(rock, lambda points: -points[:, 2] - half_height, 0.01)
    return lambda points: solid(points - np.array([0.0, 0.0, ground - half_height]))

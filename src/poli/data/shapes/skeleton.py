"""The skeleton of a figure: tapered capsules with skin between them, plus heads, hands, tails and wings."""

from dataclasses import dataclass, field

import numpy as np

from poli.data.shapes import relief
from poli.data.shapes.combine import embossed, union
from poli.data.shapes.draws import chance, direction, smooth_curve
from poli.data.shapes.implicit import Field, limbs, membranes
from poli.data.shapes.relief import with_skin


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
        flesh = with_skin(limbs(np.array(self.ends), np.array(self.radii), blend), rng)
        if not self.skins:
            return flesh
        skins = membranes(np.array(self.skins), rng.uniform(0.045, 0.075))
        wavelength = rng.uniform(0.1, 0.25)
        return union([flesh, embossed(skins, relief.folds(rng, wavelength, direction(rng)), rng.uniform(0.0, 0.012))], 0.04)


def bone(rng: np.random.Generator, towards: np.ndarray, length: float, spread: float) -> np.ndarray:
    """A random vector of this length, roughly along `towards`."""
    turned = towards / np.linalg.norm(towards) + spread * rng.normal(size=3) / np.sqrt(3.0)
    return length * turned / np.linalg.norm(turned)


def add_head(skeleton: Skeleton, rng: np.random.Generator, at: np.ndarray, size: float, gaze: np.ndarray) -> None:
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
    heading = heading / np.linalg.norm(heading)
    across = np.cross(heading, direction(rng))
    for spread in np.linspace(-0.7, 0.7, int(rng.integers(2, 5))):
        tip = at + rng.uniform(2.0, 3.5) * radius * (heading + spread * across)
        skeleton.limb(np.stack([at, tip]), np.array([0.9 * radius, max(0.5 * radius, 0.02)]))


def add_tail(skeleton: Skeleton, rng: np.random.Generator, at: np.ndarray, heading: np.ndarray, radius: float) -> None:
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

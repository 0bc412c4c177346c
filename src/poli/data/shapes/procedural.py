"""One random shape per seed: figures and animals, blends of solids, and machine parts."""

import numpy as np

from poli.data.shapes.blends import blend_of_solids
from poli.data.shapes.creatures import creature
from poli.data.shapes.implicit import Field
from poli.data.shapes.mesh import Mesh
from poli.data.shapes.parts import part
from poli.data.shapes.polygonize import outer_components, polygonize
from poli.data.shapes.statues import statue
from poli.errors import DegenerateError
from poli.validation import whole_number

_KINDS = {creature: 0.25, statue: 0.15, blend_of_solids: 0.3, part: 0.3}
_LEAST_VOLUME = 1e-3  # of a normalized mesh, whose bounding ball has volume 4.2; smaller shapes are splinters
_MOST_DRAWS = 50


def procedural_mesh(seed: int, resolution: int = 96) -> Mesh:
    """Return the shape of this seed, always the same: closed, facing outward, normalized, with `resolution` grid cells along its
    length."""
    rng = np.random.default_rng(whole_number(seed, "seed", 0))
    resolution = whole_number(resolution, "resolution", 8)
    for _ in range(_MOST_DRAWS):
        field = random_field(rng)
        try:
            mesh = outer_components(polygonize(field, resolution)).normalized()
        except DegenerateError:
            continue
        if mesh.volume > _LEAST_VOLUME:
            return mesh
    raise DegenerateError(f"seed {seed}: none of {_MOST_DRAWS} random shapes had a volume at resolution {resolution}")


def random_field(rng: np.random.Generator) -> Field:
    """A random solid within about 1.5 of the origin."""
    makers = list(_KINDS)
    return makers[rng.choice(len(makers), p=list(_KINDS.values()))](rng)

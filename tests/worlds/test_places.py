"""Every kind of place: drivable, complete, and reproducible by seed."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from poli.worlds.places import PLACES, Label, Place, make_place
from poli.worlds.places.curves import NearestOnLine

INDOORS = ("corridor", "hall", "rooms", "basement")
WALKED = ("rooms", "basement")  # too narrow for a vehicle


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, 0)


def touched(place: Place, beside: float, above: float) -> np.ndarray:
    """Triangles other than ground that reach into the space a vehicle needs, found by points spread over each triangle."""
    solid = place.triangles[~np.isin(place.labels, [Label.GROUND, Label.ROAD])].astype(float)
    route = np.concatenate([place.route[:-1], 0.5 * (place.route[:-1] + place.route[1:])])
    tree = cKDTree(route[:, :2])
    middle = solid[..., :2].mean(axis=1)
    reach = np.linalg.norm(solid[..., :2] - middle[:, None], axis=2).max(axis=1)
    solid = solid[tree.query(middle)[0] < reach + beside]
    weights = np.concatenate([np.eye(3), np.random.default_rng(0).dirichlet([0.7] * 3, 25)])  # (28, 3)
    points = np.einsum("wc,fcx->fwx", weights, solid)
    distance, nearest = tree.query(points[..., :2])
    height = points[..., 2] - route[nearest, 2]
    return solid[((distance < beside) & (height > 0.05) & (height < above)).any(axis=1)]


def test_triangles_are_finite_and_have_an_area(place: Place) -> None:
    assert place.triangles.dtype == np.float32
    assert place.triangles.shape[1:] == (3, 3)
    assert place.labels.shape == (len(place.triangles),)
    assert place.labels.dtype == np.uint8
    assert np.isfinite(place.triangles).all()
    a, b = place.triangles[:, 1] - place.triangles[:, 0], place.triangles[:, 2] - place.triangles[:, 0]
    assert (np.linalg.norm(np.cross(a.astype(float), b.astype(float)), axis=1) > 0).all()
    assert (10_000 if place.kind in INDOORS else 80_000) < len(place.triangles) < 450_000


def test_the_route_is_long_and_evenly_spaced(place: Place) -> None:
    steps = np.linalg.norm(np.diff(place.route, axis=0), axis=1)
    if place.kind in WALKED:
        assert steps.sum() > 25.0
        assert steps.min() > 0.35
        assert steps.max() < 0.6
        return
    assert steps.sum() > (60.0 if place.kind in INDOORS else 250.0)
    assert steps.min() > 0.8
    assert steps.max() < 1.2
    way = np.diff(place.route[:, :2], axis=0) / np.linalg.norm(np.diff(place.route[:, :2], axis=0), axis=1, keepdims=True)
    assert (way[1:] * way[:-1]).sum(axis=1).min() > np.cos(0.45)  # no sharper than a car can turn


def test_the_route_is_free_of_obstacles(place: Place) -> None:
    beside, above = (0.25, 1.9) if place.kind in WALKED else (1.3, 3.0)
    assert len(touched(place, beside, above)) == 0


@pytest.mark.parametrize("kind", WALKED)
@pytest.mark.parametrize("seed", range(1, 3))
def test_a_walk_passes_doors_and_furniture(kind: str, seed: int) -> None:
    """A sensor in the hand keeps its distance on every floor plan, and its surroundings are close."""
    place = make_place(kind, seed)
    assert len(touched(place, 0.25, 1.9)) == 0
    assert len(place.triangles) < 150_000
    points = place.triangles[place.labels == Label.STRUCTURE].reshape(-1, 3)[:, :2].astype(float)
    assert np.median(cKDTree(points).query(place.route[:, :2])[0]) < 1.5


def test_the_route_lies_on_ground(place: Place) -> None:
    """Below most points of the route, a vertex of ground or road is near the route's height."""
    floor = place.triangles[np.isin(place.labels, [Label.GROUND, Label.ROAD])].reshape(-1, 3).astype(float)
    distance = cKDTree(floor).query(place.route)[0]
    assert np.quantile(distance, 0.98) < 1.0


def test_places_contain_many_kinds_of_objects(place: Place) -> None:
    found = {Label(v) for v in np.unique(place.labels)}
    assert Label.GROUND in found
    assert Label.STRUCTURE in found
    assert Label.THIN in found
    if place.kind not in INDOORS:
        assert {Label.ROAD, Label.TRUNK, Label.LEAVES} <= found
        assert 2 <= len(place.movers) <= 5


def test_moving_cars_have_space(place: Place) -> None:
    for mover in place.movers:
        assert mover.triangles.dtype == np.float32
        assert np.isfinite(mover.triangles).all()
        assert abs(mover.triangles[..., 2].min()) < 0.05  # the wheels touch the ground
        steps = np.linalg.norm(np.diff(mover.route, axis=0), axis=1)
        assert np.abs(steps - 1.0).max() < 0.2
        assert 0.0 <= mover.start < steps.sum()
        assert mover.speed > 0
        gap = cKDTree(place.route[:, :2]).query(mover.route[:, :2])[0]
        assert gap.min() > 2.5 or gap.max() < 0.1  # another lane, or farther ahead in the same one


def test_places_are_determined_by_the_seed() -> None:
    first, again, other = make_place("bridge", 3), make_place("bridge", 3), make_place("bridge", 4)
    np.testing.assert_array_equal(first.triangles, again.triangles)
    np.testing.assert_array_equal(first.movers[0].route, again.movers[0].route)
    assert first.triangles.shape != other.triangles.shape


@pytest.mark.parametrize("count", [1, 15, 16, 17, 500])
def test_nearest_points_of_a_line_agree_with_a_tree(count: int) -> None:
    rng = np.random.default_rng(count)
    line = np.cumsum(0.5 * rng.standard_normal((count, 2)), axis=0)
    queries = np.concatenate([line, rng.uniform(line.min() - 30.0, line.max() + 30.0, (5000, 2))])
    for k in (1, min(12, count)):
        distances, found = NearestOnLine(line)(queries, k)
        theirs, which = (column.reshape(-1, k) for column in cKDTree(line).query(queries, k))
        np.testing.assert_allclose(distances, theirs, rtol=1e-15)
        np.testing.assert_array_equal(found, which)

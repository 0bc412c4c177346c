"""The page as a file: it is self-contained, names cannot inject code, and the numbers can be read back."""

import re

import numpy as np
import pytest

from page_files import array, data_of, places
from poli import Ellipsoids
from poli.errors import FormatError, InputError
from poli.scan import Scan
from poli.viewer import Camera, Frame, Layer, Panel, Track, flat_discs, write_page
from poli.viewer.page import robust_range
from poli.viewer.panel import colors_of, scalars_of
from poli.viewer.picture import camera_for
from poli.viewer.render import normal_colors


def some_field(rng, count=50, reach=20.0):
    shapes = rng.normal(size=(count, 3, 3)) * 0.1
    return Ellipsoids(rng.uniform(-reach, reach, (count, 3)), shapes @ np.swapaxes(shapes, 1, 2))


@pytest.fixture
def page(tmp_path):
    """The data of a page with these panels."""

    def write(panels, **options):
        write_page(tmp_path / "a.html", "a", panels, **options)
        return data_of(tmp_path / "a.html")

    return write


def rotations(q):
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    return np.stack(
        [
            np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], 1),
            np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], 1),
            np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], 1),
        ],
        1,
    )


# --- the numbers


@pytest.mark.parametrize("far", [0.0, 4_000_000.0])
def test_ellipsoids_round_trip(page, rng, far):
    field = some_field(rng)
    moved = field.transform(np.array([[1.0, 0, 0, far], [0, 1, 0, -far], [0, 0, 1, 0], [0, 0, 0, 1]]))
    data = page([Panel("one", field=moved)])
    part = data["panels"][0]["ellipsoids"]
    assert (part["count"], part["total"]) == (50, 50)
    rounding = data["rounding"]
    assert rounding < 0.001
    assert np.abs(places(data, part) - moved.means).max() <= rounding + 1e-9
    axes = rotations(array(part["turn"], "<i2", 4) / 32767.0)
    sizes = array(part["size"], "<f2", 3).astype(float)
    covariances = (axes * sizes[:, None, :] ** 2) @ np.swapaxes(axes, 1, 2)
    np.testing.assert_allclose(covariances, moved.covariances, atol=2e-3 * np.abs(moved.covariances).max())
    normals = array(part["normal"], np.int8, 4)[:, :3] / 127.0
    unit = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    assert np.einsum("ij,ij->i", unit, moved.normals).min() > np.cos(np.deg2rad(0.5))  # as the page states


def test_a_wide_cloud_is_stored_as_floats(page, rng):
    points = rng.uniform(-3000.0, 3000.0, (100, 3))
    data = page([Panel("one", points=points)])
    part = data["panels"][0]["points"]
    assert part["place"]["type"] == "float32"
    assert np.abs(places(data, part) - points).max() <= data["rounding"] < 0.001
    assert part["normal"] is part["color"] is None


def test_points_with_normals_and_colors(page, rng):
    points, normals, colors = rng.normal(size=(30, 3)), rng.normal(size=(30, 3)), rng.random((30, 3))
    normals[4] = np.nan
    part = page([Panel("one", points=Scan(points), normals=normals, colors=colors)], color="own")["panels"][0]["points"]
    written = array(part["normal"], np.int8, 4)[:, :3] / 127.0
    assert not written[4].any()
    known = np.arange(30) != 4
    unit = normals[known] / np.linalg.norm(normals[known], axis=1, keepdims=True)
    assert np.abs(written[known] - unit).max() < 0.005
    assert np.abs(array(part["color"], np.uint8, 4)[:, :3] / 255.0 - colors).max() < 0.003


def test_points_equal_to_the_means_are_not_stored_twice_and_tracks_are(page, rng):
    field, way = some_field(rng), rng.normal(size=(12, 3)).cumsum(axis=0)
    tracks = (Track(way, "way", (1.0, 0.0, 0.5)),)
    panels = [Panel("one", field=field, points=field.means), Panel("two", field=field, points=field.means + 1, tracks=tracks)]
    data = page(panels)
    first, second = data["panels"]
    assert first["points"] is None
    assert second["points"]["count"] == 50
    (track,) = second["tracks"]
    assert (track["name"], track["color"], track["count"]) == ("way", [1.0, 0.0, 0.5], 12)
    np.testing.assert_allclose(array(track["place"], "<f4", 3) + data["origin"], way, atol=1e-5)


def test_excess_ellipsoids_and_points_are_dropped_and_reported(tmp_path, rng):
    field, cloud = some_field(rng, 200), rng.normal(size=(300, 3))
    panels = [Panel("one", field=field), Panel("two", field=field.select(np.arange(200))), Panel("cloud", points=cloud)]
    left_out = write_page(tmp_path / "a.html", "a", panels, most_ellipsoids=40, most_points=100)
    assert left_out == (
        "panel 'one': 40 of 200 ellipsoids, evenly chosen",
        "panel 'two': 40 of 200 ellipsoids, evenly chosen",
        "panel 'cloud': 100 of 300 points, evenly chosen",
    )
    one, two, third = data_of(tmp_path / "a.html")["panels"]
    assert (one["ellipsoids"]["count"], one["ellipsoids"]["total"]) == (40, 200)
    assert one["ellipsoids"]["place"] == two["ellipsoids"]["place"]  # the same rows, so that panels are comparable
    assert (third["points"]["count"], third["points"]["total"]) == (100, 300)
    assert write_page(tmp_path / "a.html", "a", panels) == ()


def test_scales_span_the_data(page):
    flat = Ellipsoids(np.zeros((100, 3)), np.tile(np.diag([0.01**2, 0.1**2, 0.2**2]), (100, 1, 1)))
    thick = Ellipsoids(np.full((100, 3), 5.0), np.tile(0.5**2 * np.eye(3), (100, 1, 1)))
    ranges = page([Panel("flat", field=flat), Panel("thick", field=thick)])["ranges"]
    assert ranges["uncertainty"] == pytest.approx([0.01, 0.5])
    assert ranges["height"] == pytest.approx([0.0, 5.0])
    data = page([Panel("flat", field=flat), Panel("discs", field=thick, directions_only=True)])
    assert data["ranges"]["uncertainty"][1] < 0.02
    assert [panel["ellipsoids"]["directionsOnly"] for panel in data["panels"]] == [False, True]


# --- the file


def test_it_is_self_contained(tmp_path, rng):
    write_page(tmp_path / "a.html", "a", [Panel("one", field=some_field(rng))])
    text = (tmp_path / "a.html").read_text()
    without_namespaces = text.replace("http://www.w3.org/2000/svg", "")
    assert "http:" not in without_namespaces
    assert "https:" not in without_namespaces
    assert not re.search(r"""\bsrc=|@import|\bimport\s*\(|url\(|fetch\(|XMLHttpRequest|href=["'](?!data:)""", text)
    assert "{{" not in text.replace("${{", "")
    assert "default-src 'none'" in text
    assert len(text) < 150_000
    assert [file.name for file in tmp_path.iterdir()] == ["a.html"]


def test_names_stay_text(tmp_path, rng):
    bad = "</script><script>alert(1)</script><b>&amp;{{data}}{{script}}"
    panel = Panel(bad, field=some_field(rng), caption=bad, tracks=(Track(np.zeros((2, 3)), bad),))
    write_page(tmp_path / "a.html", bad, [panel], note=bad)
    text = (tmp_path / "a.html").read_text()
    assert "<script>alert" not in text
    assert "<title>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;b&gt;&amp;amp;{{data}}{{script}}</title>" in text
    data = data_of(tmp_path / "a.html")
    assert data["title"] == data["note"] == data["panels"][0]["name"] == data["panels"][0]["caption"] == bad
    assert data["panels"][0]["tracks"][0]["name"] == bad


def test_a_failed_page_leaves_nothing(tmp_path, rng):
    with pytest.raises(FormatError, match="does not exist"):
        write_page(tmp_path / "no" / "a.html", "a", [Panel("one", field=some_field(rng))])
    with pytest.raises(InputError, match="up must be"):
        write_page(
            tmp_path / "a.html", "a", [Panel("one", field=some_field(rng))], camera=Camera((1, 0, 0), (0, 0, 0), up=(0, 1, 0))
        )
    assert not list(tmp_path.iterdir())


# --- refused input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"panels": []}, "at least one"),
        ({"color": "red"}, "color is 'red'; expected one of normal"),
        ({"theme": "blue"}, "theme is 'blue'"),
        ({"sigma": 4.0}, "slider ends at 3"),
        ({"sigma": -1.0}, "sigma is -1.0"),
        ({"color": "own"}, "no panel has colors"),
        ({"most_points": 0}, "most_points"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, rng, arguments, message):
    with pytest.raises(InputError, match=message):
        write_page(tmp_path / "a.html", "a", **({"panels": [Panel("one", field=some_field(rng))]} | arguments))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda points: Panel("empty"), "'empty' has nothing to show"),
        (lambda points: Panel("a", points, normals=points[:4]), r"normals of panel 'a' have shape \(4, 3\)"),
        (lambda points: Panel("a", points, colors=points), "colors of panel 'a'"),
        (lambda points: Panel("a", np.where(points > 0.9, np.nan, points)), "points of panel 'a': .* rows are not finite"),
        (lambda points: Panel("a", points, sigma_scale=0.0), "sigma_scale"),
        (lambda points: Panel("a", points, layers=(Layer("x", 4),)), "layers of panel 'a' have 4 points in total; it has 5"),
        (lambda points: Panel("a", points, scalars={"time": np.zeros(4)}), r"scalar 'time' of panel 'a': .* expected 5 numbers"),
        (lambda points: Track(points[:, :2], "way"), "positions of track 'way'"),
        (lambda points: Frame("f", points, {"time": np.zeros(4)}), "scalar 'time' of frame 'f'"),
        (lambda points: Frame("f", points, position=np.zeros(2)), "position of frame 'f'"),
    ],
)
def test_wrong_panels_are_named(rng, make, message):
    with pytest.raises(InputError, match=message):
        make(3.0 * rng.normal(size=(5, 3)))


# --- helpers


def test_discs_keep_normals_and_skip_unknown_ones(rng):
    normals = rng.normal(size=(20, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    normals[3] = np.nan
    discs = flat_discs(rng.normal(size=(20, 3)), normals, 0.2)
    known = np.arange(20) != 3
    np.testing.assert_allclose(discs.normals, normals[known], atol=1e-6)
    np.testing.assert_allclose(discs.scales, np.tile([0.02, 0.2, 0.2], (19, 1)))


@pytest.mark.parametrize("size", [(1280, 720), (528, 760), (800, 800)])
def test_flat_places_fill_panels_of_any_shape(rng, size):
    points = np.concatenate([rng.uniform(-20.0, 20.0, (3000, 2)), rng.uniform(0.0, 3.0, (3000, 1))], axis=1)
    camera = camera_for([Panel("one", points=points)], *size)
    local = (points - np.array(camera.eye)) @ camera.axes.T
    u, v = (camera.focal * local[:, i] / local[:, 2] + size[i] / 2 for i in (0, 1))
    left, right = np.percentile(u, (1, 99)) / size[0]
    top, bottom = np.percentile(v, (1, 99)) / size[1]
    assert max(right - left, bottom - top) > 0.85
    assert 0.0 < top < 0.3
    assert 0.6 < bottom < 1.0
    below = camera_for([Panel("one", points=points)], *size, sky=0.1)
    local = (points - np.array(below.eye)) @ below.axes.T
    assert np.percentile(below.focal * local[:, 1] / local[:, 2] + size[1] / 2, 1) > 0.1 * size[1]


def test_the_camera_ignores_a_few_far_points(rng):
    points = rng.normal(size=(1000, 3))
    near = camera_for([Panel("one", points=points)])
    far = camera_for([Panel("one", points=np.concatenate([points, 100.0 * rng.normal(size=(20, 3))]))])
    np.testing.assert_allclose(far.eye, near.eye, atol=1.0)
    single = camera_for([Panel("one", points=np.array([[5.0, 6.0, 7.0]]))])
    assert single.target == (5.0, 6.0, 7.0)
    assert np.linalg.norm(np.subtract(single.eye, single.target)) > 0.1


def test_normal_colors_are_valid_and_distinguish_directions(rng):
    normals = rng.normal(size=(500, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    colors = normal_colors(normals)
    assert ((colors >= 0.0) & (colors <= 1.0)).all()
    axes = normal_colors(np.concatenate([np.eye(3), -np.eye(3)]))
    apart = np.linalg.norm(axes[:, None] - axes[None], axis=2)[~np.eye(6, dtype=bool)]
    assert apart.min() > 0.15


# --- fields, layers and frames


def test_fields_of_a_scan_are_scalars_or_colors(rng):
    points = rng.normal(size=(4, 3))
    rgb = np.array([[255, 0, 0], [0, 128, 0], [0, 0, 255], [1, 2, 3]])
    channels = dict(zip(("red", "green", "blue"), rgb.T.astype(np.uint8), strict=True))
    scan = Scan(points, {"intensity": np.arange(4.0), "normal": points, **channels})
    assert list(scalars_of(scan)) == ["intensity"]
    np.testing.assert_allclose(colors_of(scan), rgb / 255.0)
    packed = ((rgb[:, 0] << 16) | (rgb[:, 1] << 8) | rgb[:, 2]).astype(np.uint32)
    scan = Scan(points, {"rgb": packed.view(np.float32), "ring": np.arange(4)})  # as PCL stores colors
    np.testing.assert_allclose(colors_of(scan), rgb / 255.0)
    assert list(scalars_of(scan)) == ["ring"]
    wide = {name: values.astype(np.uint16) * 257 for name, values in channels.items()}
    np.testing.assert_allclose(colors_of(Scan(points, wide)), rgb / 255.0)
    assert colors_of(Scan(points, {"red": np.arange(4)})) is None
    negative = Scan(points, {name: values.astype(np.float64) - 5.0 for name, values in channels.items()})
    assert colors_of(negative) is None
    assert list(scalars_of(negative)) == ["red", "green", "blue"]


def test_scales_ignore_a_few_odd_values():
    low, high = robust_range(np.concatenate([np.linspace(10.0, 20.0, 1000), [1e9]]))
    assert 10.0 < low < 10.5
    assert 19.5 < high < 20.1
    assert robust_range(np.array([0] * 999 + [1])) == (0.0, 1.0)  # a rare flag
    assert robust_range(np.empty(0)) == (0.0, 1.0)


def test_fields_can_be_read_back(page, rng):
    points = rng.normal(size=(300, 3))
    scalars = {
        "ring": rng.integers(0, 128, 300).astype(np.uint16),
        "time": 1.7e9 + rng.uniform(0.0, 0.1, 300),
        "range": np.where(np.arange(300) == 7, np.nan, rng.uniform(0.0, 90.0, 300)),
    }
    data = page([Panel("one", points=points, scalars=scalars)])
    assert [(field["name"], field["unit"]) for field in data["fields"]] == [("ring", ""), ("time", "s"), ("range", "m")]
    for field in data["fields"]:
        codes = array(data["panels"][0]["points"]["scalars"][field["name"]], "<u2", 1)[:, 0]
        read = np.where(codes == 65535, np.nan, field["start"] + field["step"] * codes)
        span = np.nanmax(scalars[field["name"]]) - np.nanmin(scalars[field["name"]])
        np.testing.assert_allclose(read, scalars[field["name"]], rtol=0.0, atol=0.0 if field["name"] == "ring" else span / 1e5)


def test_layers_keep_their_rows_when_a_panel_is_thinned(page, rng):
    layers = (Layer("a", 100), Layer("b", 300))
    held = page([Panel("one", points=rng.normal(size=(400, 3)), layers=layers)], most_points=200)["panels"][0]["points"]["layers"]
    assert sum(held) == 200
    assert 30 < held[0] < 70


def test_frames_can_be_read_back(page, rng):
    field = some_field(rng, 60)
    frames = (
        Frame("first", rng.uniform(-50.0, 50.0, (40, 3)), {"intensity": np.arange(40.0)}, seconds=0.0),
        Frame("empty", np.empty((0, 3))),
        Frame(
            "second", rng.uniform(400.0, 500.0, (30, 3)), {}, field, {"intensity": np.ones(60)}, np.array([450.0, 0.0, 0.0]), 0.1
        ),
    )
    data = page([Panel("scans", frames=frames)])
    stored = data["panels"][0]["frames"]
    first, empty, second = stored["parts"]
    assert empty["points"] is empty["ellipsoids"] is first["ellipsoids"] is None
    assert (first["points"]["count"], second["points"]["count"], second["ellipsoids"]["count"]) == (40, 30, 60)
    assert (stored["names"], stored["seconds"]) == (["first", "empty", "second"], [0.0, None, 0.1])
    assert np.abs(places(data, second["points"]) - frames[2].places).max() <= data["rounding"] + 1e-9
    assert data["rounding"] < 0.002  # each frame has a box of its own
    axes = rotations(array(second["ellipsoids"]["turn"], "<i2", 4) / 32767.0)
    assert np.einsum("ni,ni->n", axes[:, :, 0], field.normals).min() > 0.999  # the normal is the first axis
    assert (array(first["points"]["scalars"]["intensity"], "<u2", 1)[:, 0] == np.arange(40)).all()
    assert second["points"]["scalars"] == {}  # the second scan has no intensity


def test_a_coloring_must_exist(tmp_path, page, rng):
    panel = Panel("a", points=rng.normal(size=(5, 3)), scalars={"time": np.arange(5.0), "height": np.arange(5.0)})
    for color, shown in (("time", "field:time"), ("height", "height"), ("field:height", "field:height")):
        assert page([panel], color=color)["color"] == shown
    with pytest.raises(InputError, match=r"color is 'ring'; expected one of normal, .*, or a field: time, height"):
        write_page(tmp_path / "a.html", "a", [panel], color="ring")
    with pytest.raises(InputError, match="no panel has layers"):
        write_page(tmp_path / "a.html", "a", [panel], color="layer")

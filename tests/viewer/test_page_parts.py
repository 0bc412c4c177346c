"""Parts of panels as data of the page: fields, colors of files, layers and frames."""

import numpy as np
import pytest
from test_page import rotations, some_field

from page_files import array, data_of, places
from poli.errors import InputError
from poli.scan import Scan
from poli.viewer import Frame, Layer, Panel, write_page
from poli.viewer.page_data import robust_range
from poli.viewer.panel import colors_of, scalars_of


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


def test_fields_can_be_read_back(tmp_path, rng):
    points = rng.normal(size=(300, 3))
    scalars = {
        "ring": rng.integers(0, 128, 300).astype(np.uint16),
        "time": 1.7e9 + rng.uniform(0.0, 0.1, 300),
        "range": np.where(np.arange(300) == 7, np.nan, rng.uniform(0.0, 90.0, 300)),
    }
    write_page(tmp_path / "a.html", "a", [Panel("one", points=points, scalars=scalars)])
    data = data_of(tmp_path / "a.html")
    assert [(field["name"], field["unit"]) for field in data["fields"]] == [("ring", ""), ("time", "s"), ("range", "m")]
    for field in data["fields"]:
        codes = array(data["panels"][0]["points"]["scalars"][field["name"]], "<u2", 1)[:, 0]
        read = np.where(codes == 65535, np.nan, field["start"] + field["step"] * codes)
        span = np.nanmax(scalars[field["name"]]) - np.nanmin(scalars[field["name"]])
        np.testing.assert_allclose(read, scalars[field["name"]], rtol=0.0, atol=0.0 if field["name"] == "ring" else span / 1e5)


def test_layers_keep_their_rows_when_a_panel_is_thinned(tmp_path, rng):
    layers = (Layer("a", 100), Layer("b", 300))
    write_page(tmp_path / "a.html", "a", [Panel("one", points=rng.normal(size=(400, 3)), layers=layers)], most_points=200)
    held = data_of(tmp_path / "a.html")["panels"][0]["points"]["layers"]
    assert sum(held) == 200
    assert 30 < held[0] < 70


def test_frames_can_be_read_back(tmp_path, rng):
    field = some_field(rng, 60)
    frames = (
        Frame("first", rng.uniform(-50.0, 50.0, (40, 3)), {"intensity": np.arange(40.0)}, seconds=0.0),
        Frame("empty", np.empty((0, 3))),
        Frame(
            "second", rng.uniform(400.0, 500.0, (30, 3)), {}, field, {"intensity": np.ones(60)}, np.array([450.0, 0.0, 0.0]), 0.1
        ),
    )
    write_page(tmp_path / "a.html", "a", [Panel("scans", frames=frames)])
    data = data_of(tmp_path / "a.html")
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


def test_a_coloring_must_exist(tmp_path, rng):
    panel = Panel("a", points=rng.normal(size=(5, 3)), scalars={"time": np.arange(5.0), "height": np.arange(5.0)})
    for color, shown in (("time", "field:time"), ("height", "height"), ("field:height", "field:height")):
        write_page(tmp_path / "a.html", "a", [panel], color=color)
        assert data_of(tmp_path / "a.html")["color"] == shown
    with pytest.raises(InputError, match=r"color is 'ring'; expected one of normal, .*, or a field: time, height"):
        write_page(tmp_path / "a.html", "a", [panel], color="ring")
    with pytest.raises(InputError, match="no panel has layers"):
        write_page(tmp_path / "a.html", "a", [panel], color="layer")

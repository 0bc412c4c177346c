"""The tools of the page in a browser: fields as colors, layers, the timeline, clipping, reading points and measuring."""

import json

import numpy as np
import pytest

from chromium import PROGRAM
from poli import Ellipsoids
from poli.viewer import Camera, Frame, Layer, Panel, Track, write_page

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")

ROW = np.stack([np.linspace(-3.0, 3.0, 7), np.zeros(7), np.zeros(7)], axis=1)  # points in a horizontal row


@pytest.fixture
def opened(opened):
    """Open pages with large points."""

    def open_page(panels, **options):
        tab = opened(panels, **options)
        tab.run("poliView.show({size: 8})")
        tab.settle()
        return tab

    return open_page


def stage(tab):
    """The part of a screenshot that shows the panels, and its position."""
    box = tab.run(
        "(() => { const b = canvas.getBoundingClientRect(); return [b.left, b.top, b.width, b.height].map(Math.round); })()"
    )
    left, top, width, height = box
    return tab.screenshot()[top : top + height, left : left + width], (left, top)


def spots(tab, points):
    """Where points are on the stage, in pixels, for the camera of these tests: (N, 2) columns and rows."""
    width, height = tab.run("[canvas.clientWidth, canvas.clientHeight]")
    focal = 0.5 * height / np.tan(np.deg2rad(60.0) / 2)
    depth = points[:, 1] + 10.0
    return np.stack([width / 2 + focal * points[:, 0] / depth, height / 2 - focal * points[:, 2] / depth], axis=1)


def colors_at(tab, points):  # (N, 3)
    tab.settle()
    image, _ = stage(tab)
    columns, rows = np.floor(spots(tab, points)).astype(int).T
    return image[rows, columns].astype(int)


def is_drawn(tab, points):  # (N,)
    return colors_at(tab, points).max(axis=1) > 70


def click(tab, point):
    _, (left, top) = stage(tab)
    x, y = spots(tab, np.array([point]))[0] + [left, top]
    tab.mouse("mousePressed", x, y, button="left", clickCount=1)
    tab.mouse("mouseReleased", x, y, button="left", clickCount=1)
    tab.settle()


def press(tab, key):
    tab.run(f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: {json.dumps(key)}, bubbles: true}}))")
    tab.settle()


def test_fields_are_colors_with_a_legend(opened):
    scalars = {"time": np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, np.nan]), "ring": np.arange(7), "flag": np.ones(7)}
    tab = opened([Panel("a", points=ROW, scalars=scalars)], color="time")
    assert tab.run("poliView.state.color") == "field:time"
    by_time = colors_at(tab, ROW)
    assert len(np.unique(by_time[:6], axis=0)) == 6
    legend = tab.run("document.getElementById('legend').innerText")
    assert "time in s" in legend
    assert "0.01 s" in legend  # the outer 2 % have the colors of the ends
    assert "0.49 s" in legend
    assert tab.run("[...document.getElementById('field').options].map(o => o.textContent)") == ["Field", "time (s)", "ring", "flag"]
    tab.run("(() => { const f = document.getElementById('field'); f.value = 'ring'; f.dispatchEvent(new Event('change')); })()")
    by_ring = colors_at(tab, ROW)
    np.testing.assert_allclose(by_ring[0], by_time[0], atol=8)  # both are lowest
    np.testing.assert_allclose(by_ring[6], by_time[5], atol=8)  # both are highest
    assert np.ptp(by_time[6]) < 40  # unknown: gray
    assert tab.run("document.querySelector('input[name=color]:checked')") is None
    tab.run("poliView.setColor('field:flag')")
    tab.settle()
    assert "all 1" in tab.run("document.getElementById('legend').innerText")
    tab.run("poliView.setColor('height')")
    assert tab.run("document.getElementById('field').value") == ""


def test_ellipsoids_have_fields_too(opened):
    field = Ellipsoids(ROW, np.tile(0.1**2 * np.eye(3), (7, 1, 1)))
    tab = opened([Panel("a", field=field, scalars={"intensity": np.arange(7.0)})], color="intensity")
    tab.run("poliView.show({points: false})")
    assert len(np.unique(colors_at(tab, ROW), axis=0)) == 7


def test_layers_have_colors_and_switches(opened):
    tab = opened([Panel("both", points=ROW, layers=(Layer("a", 3), Layer("b", 4)))], color="layer")
    seen = colors_at(tab, ROW)
    assert (seen[:3, 2] > seen[:3, 0] + 60).all()
    assert (seen[3:, 0] > seen[3:, 2] + 60).all()
    assert "b (4 points)" in tab.run("document.querySelector('.layers').innerText")
    tab.run("document.querySelector('input[data-layer=a]').click()")
    assert is_drawn(tab, ROW).tolist() == [False] * 3 + [True] * 4
    tab.run("document.querySelector('input[data-layer=a]').click()")
    assert is_drawn(tab, ROW).all()


def timeline(**options):
    frames = tuple(
        Frame(f"Scan {i}", ROW[i : i + 1], {"intensity": np.array([i])}, position=ROW[i], seconds=0.1 * i, total=5)
        for i in range(7)
    )
    return Panel("Scans", frames=frames, **options)


def test_a_timeline_steps_and_plays(opened):
    tab = opened([timeline(tracks=(Track(ROW + [0.0, 0.0, 3.0], "way"),))])
    assert tab.run("poliView.state.when") == "all"
    assert is_drawn(tab, ROW).all()  # the points of all scans
    press(tab, ".")
    assert tab.run("[poliView.state.when, poliView.state.moment]") == ["one", 1]
    tab.run("poliView.show({tracks: false})")  # and without the mark of the sensor
    assert is_drawn(tab, ROW).tolist() == [i == 1 for i in range(7)]
    assert "Scan 1 · 2 of 7 · 0.10 s" in tab.run("document.getElementById('moment-value').textContent")
    assert "1 of 5 points" in tab.run("document.querySelector('.counts').textContent")
    tab.run("(() => { const m = document.getElementById('moment'); m.value = 4; m.dispatchEvent(new Event('input')); })()")
    assert is_drawn(tab, ROW).tolist() == [i == 4 for i in range(7)]
    press(tab, ",")
    assert tab.run("poliView.state.moment") == 3
    tab.run("document.querySelector('#when input[value=all]').click()")
    assert is_drawn(tab, ROW).all()
    tab.run("document.getElementById('play').click()")
    assert tab.run("document.getElementById('play').getAttribute('aria-label')") == "Pause"
    ended = "poliView.state.moment === 6 && !document.querySelector('.playing')"
    tab.run(f"new Promise(done => {{ const look = () => ({ended} ? done() : requestAnimationFrame(look)); look(); }})")
    assert is_drawn(tab, ROW).tolist() == [i == 6 for i in range(7)]


def test_a_scan_over_the_map_and_a_following_camera(opened):
    above = ROW + [0.0, 0.0, 1.0]
    tab = opened([timeline(points=above)], color="height")
    before = tab.run("poliView.camera.target")
    tab.run("poliView.show({when: 'both', tracks: false}); poliView.setMoment(2)")
    assert is_drawn(tab, above).all()
    assert is_drawn(tab, ROW).tolist() == [i == 2 for i in range(7)]
    tab.run("document.getElementById('follow').click(); poliView.setMoment(4)")
    tab.settle()
    np.testing.assert_allclose(np.subtract(tab.run("poliView.camera.target"), before), ROW[4] - ROW[2], atol=1e-6)


def test_scans_without_poses_are_shown_one_at_a_time(opened):
    tab = opened([timeline(frames_share_world=False)])
    assert tab.run("[poliView.state.when, document.getElementById('when').hidden]") == ["one", True]
    tab.run("poliView.show({tracks: false})")
    assert is_drawn(tab, ROW).tolist() == [i == 0 for i in range(7)]


def test_pages_without_frames_have_no_timeline(opened):
    tab = opened([Panel("a", points=ROW)])
    assert tab.run("document.getElementById('timeline').hidden")
    press(tab, " ")
    press(tab, ".")


def test_a_clipping_box_hides_what_is_outside(opened):
    stack = np.stack([np.zeros(7), np.zeros(7), np.linspace(-2.0, 2.0, 7)], axis=1)
    tab = opened([Panel("a", points=np.concatenate([ROW, stack]))])
    press(tab, "c")
    assert not tab.run("document.getElementById('clip-panel').hidden")
    slide = "s.value = 300; s.dispatchEvent(new Event('input'))"  # of 500 steps from -2 to 2 m: 0.4 m
    tab.run(f"(() => {{ const s = document.getElementById('clip-z-high'); {slide}; }})()")
    assert is_drawn(tab, stack).tolist() == [z < 0.4 for z in stack[:, 2]]
    assert tab.run("document.querySelectorAll('.clip-text output')[2].textContent") == "to 0.40 m"
    tab.run("poliView.setClip([0.5, null, null], [null, null, null])")
    assert is_drawn(tab, ROW).tolist() == [x > 0.5 for x in ROW[:, 0]]
    assert not is_drawn(tab, stack)[[0, 1, 5, 6]].any()
    tab.run("document.getElementById('clip-reset').click()")
    assert is_drawn(tab, np.concatenate([ROW, stack[:6]])).all()  # the highest is below the panel of the sliders
    press(tab, "Escape")
    assert tab.run("document.getElementById('clip-panel').hidden")


def test_a_click_reads_the_numbers_of_a_point(opened):
    far = np.array([690_000.0, 5_330_000.0, 500.0])
    camera = Camera(eye=tuple(far + [0.0, -10.0, 0.0]), target=tuple(far), width=100, height=100, field_of_view=60.0)
    scalars = {"intensity": np.arange(7.0) / 8.0, "ring": np.arange(7)}
    tab = opened([Panel("scan", points=ROW + far, scalars=scalars, viewpoint=far)], camera=camera)
    click(tab, ROW[5])
    picked = tab.run("poliView.picked")
    np.testing.assert_allclose(picked["places"][0], ROW[5] + far, atol=0.001)
    text = picked["texts"][0]
    assert text["position"].startswith("690002.000, 5330000.000, 500.000")
    assert (text["range"], text["intensity"], text["ring"]) == ("2.000 m", "0.625", "5")
    assert "690002.000" in tab.run("document.getElementById('card').innerText")
    click(tab, [0.0, 0.0, -2.0])  # nothing is there
    assert tab.run("document.getElementById('card').hidden")


def test_a_click_reads_the_axes_of_an_ellipsoid(opened):
    shape = np.diag([0.3**2, 0.02**2, 0.5**2])
    field = Ellipsoids(np.array([[0.0, 0.0, 0.0], [0.0, 3.0, 0.0]]), np.stack([shape, shape]), np.array([0.0, -10.0, 0.0]))
    tab = opened([Panel("field", field=field, viewpoint=np.array([0.0, -10.0, 0.0]))])
    click(tab, [0.3, 0.0, 0.4])  # inside of its outline at two sigma, away from its mean
    text = tab.run("poliView.picked")["texts"][0]
    assert text["axes (1 \u03c3)"] == "2 cm · 30 cm · 50 cm"
    assert text["normal"] == "0.000, -1.000, 0.000"
    assert text["range"] == "10.000 m"  # of the one in front


def test_measuring_between_two_points(opened):
    tab = opened([Panel("a", points=np.concatenate([ROW, [[1.0, 0.0, 1.5]]]))])
    press(tab, "m")
    assert tab.run("document.getElementById('measure').getAttribute('aria-pressed')") == "true"
    click(tab, ROW[1])
    assert "second point" in tab.run("document.getElementById('card').innerText")
    click(tab, [1.0, 0.0, 1.5])
    found = tab.run("poliView.picked")
    assert found["distance"] == pytest.approx(np.hypot(3.0, 1.5), abs=0.001)
    card = tab.run("document.getElementById('card').innerText")
    assert "3.354 m" in card
    assert "3.000, 0.000, 1.500 m" in card
    assert tab.run("document.querySelectorAll('#marks line').length") == 1
    assert tab.run("document.querySelector('#marks text').textContent") == "3.35 m"
    press(tab, "Escape")
    assert tab.run("[document.getElementById('card').hidden, document.querySelectorAll('#marks line').length]") == [True, 0]


@pytest.mark.parametrize("size", [(1200, 500), (420, 700)])
def test_the_first_view_shows_all_of_a_corridor(tab, tmp_path, rng, size):
    along = np.clip(rng.exponential(3.0, 8000) * rng.choice([-1.0, 1.0], 8000), -20.0, 20.0)  # most points are near the sensor
    walls = np.stack([along, rng.choice([-1.2, 1.2], 8000), rng.uniform(0.0, 2.5, 8000)], axis=1)
    tab.call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False)
    write_page(tmp_path / "page.html", "a page", [Panel("corridor", points=walls)])
    tab.open(tmp_path / "page.html")
    tab.settle()
    ends = json.dumps(walls[np.abs(walls[:, 0]) > 17.0].tolist())
    inside = tab.run(f"{ends}.map(p => poliView.project(p)).every(at => at && at.x > 0 && at.x < 1 && at.y > 0 && at.y < 1)")
    tab.call("Emulation.setDeviceMetricsOverride", width=800, height=600, deviceScaleFactor=1, mobile=False)
    assert inside

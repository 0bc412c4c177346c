"""The page in a browser: what is drawn, where, in which colors, and what the controls change."""

import numpy as np
import pytest

from chromium import PROGRAM, Tab
from poli import Ellipsoids
from poli.viewer import Panel, Track, write_page
from poli.viewer.picture import grid_of, point_size
from poli.viewer.render import normal_colors

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")

SIGMA = "\u03c3"
RED, BLUE = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])


def balls(means, sigma, colors):
    return Ellipsoids(np.array(means, float), np.tile(sigma**2 * np.eye(3), (len(means), 1, 1))), np.array(colors)


def region(tab, panel=0):
    """The part of a screenshot that shows a panel, without the text at its top."""
    box = tab.run(
        f"(() => {{ const b = document.querySelectorAll('.frame')[{panel}].getBoundingClientRect();"
        "return [b.left, b.top, b.width, b.height].map(Math.round); })()"
    )
    left, top, width, height = box
    return tab.screenshot()[top : top + height, left : left + width]


def mostly(image, channel):
    others = [c for c in range(3) if c != channel]
    return image[..., channel].astype(int) > image[..., others].max(axis=-1).astype(int) + 60


def town(rng, count=400):
    """Ellipsoids of every direction and thickness over a wide area."""
    scales = rng.uniform(0.02, 0.4, (count, 3))
    q, _ = np.linalg.qr(rng.normal(size=(count, 3, 3)))
    return Ellipsoids(rng.uniform(-4.0, 4.0, (count, 3)), (q * scales[:, None, :] ** 2) @ np.swapaxes(q, 1, 2))


def focal_of(image):  # pixels, of the camera of these tests
    return 0.5 * image.shape[0] / np.tan(np.deg2rad(60.0) / 2)


# --- what is drawn


def test_a_ball_has_the_right_size_and_the_slider_changes_it(opened):
    field, colors = balls([[0.0, 0.0, 0.0]], 0.5, [RED])
    tab = opened([Panel("ball", field=field, colors=colors)], color="own", sigma=2.0)
    seen = region(tab)
    focal = focal_of(seen)
    drawn = mostly(seen, 0)
    assert drawn.sum() == pytest.approx(np.pi * (focal * np.tan(np.arcsin(0.1))) ** 2, rel=0.03)
    rows, columns = np.nonzero(drawn)
    assert rows.mean() == pytest.approx(seen.shape[0] / 2 - 0.5, abs=1.0)
    assert columns.mean() == pytest.approx(seen.shape[1] / 2 - 0.5, abs=1.0)

    slide = "s.value = 1; s.dispatchEvent(new Event('input', {bubbles: true}))"
    tab.run(f"(() => {{ const s = document.getElementById('sigma'); {slide}; }})()")
    tab.settle()
    assert tab.run("poliView.state.sigma") == 1
    assert f"1.00 {SIGMA}" in tab.run("document.getElementById('sigma-value').textContent")
    assert mostly(region(tab), 0).sum() == pytest.approx(np.pi * (focal * np.tan(np.arcsin(0.05))) ** 2, rel=0.05)
    tab.run("poliView.show({points: false}); poliView.setSigma(0)")
    tab.settle()
    assert not mostly(region(tab), 0).any()


def test_a_ball_near_the_camera_is_round_too(opened):
    """Where an ellipsoid is large on the screen, perspective distorts its outline; tangents from the eye give the right one."""
    field, colors = balls([[3.0, -7.0, 0.0]], 0.5, [RED])
    seen = region(opened([Panel("ball", field=field, colors=colors)], color="own"))
    focal = focal_of(seen)
    middle, half = np.arctan2(3.0, 3.0), np.arcsin(1.0 / np.hypot(3.0, 3.0))
    left, right = (seen.shape[1] / 2 + focal * np.tan(middle + turn) for turn in (-half, half))
    columns = np.nonzero(mostly(seen, 0).any(axis=0))[0]
    assert columns.min() == pytest.approx(left, abs=2.0)
    assert columns.max() == pytest.approx(min(right, seen.shape[1] - 1), abs=2.0)


def test_a_plate_has_the_right_orientation(opened):
    turn = np.array([[np.cos(0.5), 0, np.sin(0.5)], [0, 1, 0], [-np.sin(0.5), 0, np.cos(0.5)]])
    plate = Ellipsoids(np.zeros((1, 3)), (turn @ np.diag([1.0, 1.0, 0.01**2]) @ turn.T)[None])  # seen edge on
    seen = region(opened([Panel("plate", field=plate, colors=RED[None])], color="own"))
    rows, columns = np.nonzero(mostly(seen, 0))
    slope = np.polyfit(columns, rows, 1)[0]
    assert np.arctan(slope) == pytest.approx(0.5, abs=0.02)
    focal = focal_of(seen)
    assert np.hypot(np.ptp(columns), np.ptp(rows)) == pytest.approx(2 * focal * 0.2, rel=0.03)
    assert len(rows) < 8 * np.ptp(columns)  # thin


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_near_ellipsoids_hide_far_ones(opened, order):
    field, colors = balls(np.array([[0.0, -2.0, 0.0], [0.0, 2.0, 0.0]])[order], 0.3, np.stack([RED, BLUE])[order])
    seen = region(opened([Panel("two", field=field, colors=colors)], color="own"))
    assert mostly(seen, 0)[seen.shape[0] // 2, seen.shape[1] // 2]
    assert not mostly(seen, 2).any()


def test_points_have_the_colors_of_their_normals(opened):
    """The same colors as in pictures drawn elsewhere."""
    normals = np.concatenate([np.eye(3), -np.eye(3), [[0.6, 0.0, 0.8]]])
    points = np.stack([np.linspace(-3.0, 3.0, 7), np.zeros(7), np.zeros(7)], axis=1)
    tab = opened([Panel("points", points=points, normals=normals)])
    tab.run("poliView.show({size: 8})")
    tab.settle()
    seen = region(tab)
    focal = focal_of(seen)
    columns = np.floor(seen.shape[1] / 2 + focal * points[:, 0] / 10.0).astype(int)
    np.testing.assert_allclose(seen[seen.shape[0] // 2, columns] / 255.0, normal_colors(normals), atol=0.012)


def test_a_track_is_drawn_in_the_right_place(opened):
    way = np.stack([np.linspace(-2.0, 2.0, 30), np.zeros(30), np.ones(30)], axis=1)
    seen = region(opened([Panel("way", tracks=(Track(way, "way", (1.0, 0.0, 0.0)),))]))
    focal = focal_of(seen)
    rows, columns = np.nonzero(mostly(seen[60:], 0))  # the legend above has its color, too
    assert np.ptp(columns) == pytest.approx(focal * 0.4, abs=5)
    assert rows.mean() + 60 == pytest.approx(seen.shape[0] / 2 - focal * 0.1, abs=1.5)


# --- what the controls change


def test_color_modes_and_backgrounds_give_different_pictures(opened, rng):
    tab = opened([Panel("a", field=town(rng)), Panel("b", points=rng.uniform(-4, 4, (70_000, 3)))])
    assert tab.run("poliView.state.size") == point_size(70_000) < point_size(400)
    pictures = {"normal": tab.screenshot()}
    colors = len(np.unique(pictures["normal"].reshape(-1, 3), axis=0))
    assert colors > 500
    for color in ("planarity", "uncertainty", "height"):
        tab.run(f"document.querySelector('input[name=color][value={color}]').click()")
        tab.settle()
        assert tab.run("poliView.state.color") == color
        pictures[color] = tab.screenshot()
        if color == "uncertainty":
            assert f"1 {SIGMA} along the normal" in tab.run("document.getElementById('legend').textContent")
    tab.run("poliView.setTheme('light')")
    tab.settle()
    pictures["light"] = tab.screenshot()
    assert pictures["light"].mean() > pictures["height"].mean() + 60
    names = list(pictures)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            changed = (np.abs(pictures[one].astype(int) - pictures[other].astype(int)).max(axis=2) > 20).sum()
            assert changed > 2000, (one, other)


def test_toggles_and_a_single_panel(opened, rng):
    tab = opened([Panel("a", field=town(rng)), Panel("b", field=town(rng))])
    both = region(tab, 0)
    tab.run("document.getElementById('show-ellipsoids').click()")
    tab.settle()
    points = region(tab, 0)
    assert (points.std(axis=(0, 1)) < both.std(axis=(0, 1))).all()  # only dots are left
    tab.run("document.getElementById('show-points').click()")
    tab.settle()
    nothing = region(tab, 0)[80:]
    assert nothing.std(axis=1).max() < points.std(axis=1).max()
    before = tab.run("document.querySelectorAll('.frame')[1].getBoundingClientRect().width")
    tab.run("document.querySelectorAll('.alone')[1].click()")
    tab.settle()
    assert tab.run("document.querySelectorAll('.frame')[1].getBoundingClientRect().width") > 1.8 * before
    assert tab.run("document.querySelectorAll('.frame')[0].hidden")


def test_the_shared_camera_rotates_pans_and_resets(opened, rng):
    field = town(rng)
    tab = opened([Panel("a", field=field), Panel("b", field=field)])

    def drag(button, modifiers=0):
        tab.mouse("mousePressed", 200, 300, button=button, clickCount=1, modifiers=modifiers)
        tab.mouse("mouseMoved", 260, 330, button=button, buttons=1, modifiers=modifiers)
        tab.mouse("mouseReleased", 260, 330, button=button, clickCount=1, modifiers=modifiers)
        tab.settle()
        return tab.run("poliView.camera")

    first, picture = tab.run("poliView.camera"), region(tab, 0)
    turned = drag("left")
    assert turned["yaw"] < first["yaw"] - 0.1
    assert turned["pitch"] > first["pitch"] + 0.1
    assert turned["target"] == first["target"]
    one, other = (region(tab, i)[90:-40, 5:-5].astype(int) for i in (0, 1))  # between the text and the ruler
    assert (np.abs(one - other).max(axis=2) > 8).mean() < 0.001  # the same up to rounding
    assert np.abs(region(tab, 0).astype(int) - picture).max() > 60
    for moved in (drag("right"), drag("left", modifiers=8)):  # 8: shift
        assert moved["target"] != turned["target"]
        assert moved["yaw"] == turned["yaw"]
    tab.mouse("mouseWheel", 200, 300, deltaX=0, deltaY=-240)
    tab.settle()
    assert tab.run("poliView.camera.distance") < 0.9 * first["distance"]
    tab.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'r'}))")
    tab.settle()
    assert tab.run("poliView.camera") == first
    drag("left")
    for count in (1, 2):
        tab.mouse("mousePressed", 200, 300, button="left", clickCount=count)
        tab.mouse("mouseReleased", 200, 300, button="left", clickCount=count)
    tab.settle()
    assert tab.run("poliView.camera") == first


def test_two_fingers_zoom(opened, rng):
    tab = opened([Panel("a", field=town(rng))])
    before = tab.run("poliView.camera.distance")
    for kind, apart in (("touchStart", 50), ("touchMove", 100), ("touchEnd", None)):
        points = [] if apart is None else [{"x": 400 + s * apart, "y": 300, "id": i} for i, s in enumerate((-1, 1))]
        tab.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
    tab.settle()
    assert tab.run("poliView.camera.distance") == pytest.approx(before / 2, rel=0.1)


# --- text, and isolation


def test_no_requests_leave_the_page_and_no_errors_occur(opened, rng):
    tab = opened(
        [Panel("a", field=town(rng)), Panel("b", points=rng.normal(size=(50, 3)), tracks=(Track(rng.normal(size=(9, 3))),))]
    )
    requests = [params["request"]["url"] for params in tab.reported("Network.requestWillBeSent")]
    assert requests
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests)
    listen = "document.addEventListener('securitypolicyviolation', event => done(event.effectiveDirective))"
    asked = f"new Promise(done => {{ {listen}; fetch('http://127.0.0.1:9/').then(() => done('sent'), () => {{}}); }})"
    assert tab.run(asked) == "connect-src"  # the browser itself refuses any request
    tab.events.clear()
    tab.run("poliView.setColor('height'); poliView.setSigma(0.5)")
    tab.settle()
    assert tab.run("poliView.frames") > 2


def test_it_names_what_is_shown_and_what_is_left_out(opened, rng):
    bad = "<img src=x onerror='window.hacked=1'></script>"
    tab = opened(
        [Panel(bad, field=town(rng), caption=bad), Panel("b", field=town(rng), sigma_scale=0.25)], title=bad, most_ellipsoids=100
    )
    assert tab.run("document.querySelector('h1').textContent") == bad
    assert tab.run("document.title") == bad
    assert tab.run("document.querySelector('.frame h2').textContent") == bad
    assert tab.run("document.querySelector('.caption').textContent") == bad
    assert tab.run("typeof window.hacked") == "undefined"
    assert f"400 ellipsoids at 2.00 {SIGMA}" in tab.run("document.querySelectorAll('.counts')[0].textContent")
    assert f"400 ellipsoids at 0.50 {SIGMA}" in tab.run("document.querySelectorAll('.counts')[1].textContent")
    assert "100 of 400 ellipsoids are drawn" in tab.run("document.querySelector('.cut').textContent")


def test_panels_use_the_same_grid_as_pictures(opened, rng):
    for count in (1, 2, 3, 4, 5):
        tab = opened([Panel(str(i), points=rng.normal(size=(5, 3))) for i in range(count)])
        width, height = tab.run("[document.getElementById('stage').clientWidth, document.getElementById('stage').clientHeight]")
        grid = grid_of(count, width, height, gap=8)
        boxes = tab.run("[...document.querySelectorAll('.frame')].map(f => [f.offsetLeft, f.offsetWidth, f.offsetHeight])")
        assert len({left for left, _, _ in boxes}) == grid.columns
        assert all((w, h) == (grid.width, grid.height) for _, w, h in boxes)


def test_without_webgl_an_error_is_shown(tmp_path, rng):
    write_page(tmp_path / "page.html", "a page", [Panel("a", field=town(rng))])
    with Tab(800, 600, flags=["--disable-3d-apis"]) as tab:
        tab.open(tmp_path / "page.html")
        assert "WebGL2" in tab.run("document.getElementById('trouble').innerText")
        assert tab.run("poliView.state.works") is False
        tab.run("poliView.setSigma(1)")  # the controls still work
        assert not tab.reported("Runtime.exceptionThrown")

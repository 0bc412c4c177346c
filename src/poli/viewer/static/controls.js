// --- Text and controls around the panels: names, counts, the dock, the legend.

const COLORS = [
  ["normal", "Normal"], ["planarity", "Planarity"], ["uncertainty", "Uncertainty"], ["height", "Height"], ["own", "As given"],
  ["layer", "Layers"],
];

const find = (id) => document.getElementById(id);
const number = (value) => value.toLocaleString("en-US");

function make(kind, classes, text, parent) {
  const element = document.createElement(kind);
  if (classes) element.className = classes;
  if (text) element.textContent = text;  // never as HTML: names come from files
  if (parent) parent.append(element);
  return element;
}

function length(meters) {
  const size = Math.abs(meters);
  if (size === 0) return "0 m";
  if (size >= 1000) return `${+(meters / 1000).toPrecision(3)} km`;
  if (size >= 1) return `${+meters.toPrecision(3)} m`;
  if (size >= 0.01) return `${+(100 * meters).toPrecision(2)} cm`;
  return size >= 1e-4 ? `${+(1000 * meters).toPrecision(2)} mm` : `${+(1e6 * meters).toPrecision(2)} µm`;
}

// A frame for each panel: its name, its counts, and how many items are not drawn.
function makeFrames(scene, choose, toggleLayer) {
  return scene.panels.map((panel, i) => {
    const frame = make("div", "frame", "", find("frames")), head = make("div", "head", "", frame);
    make("h2", "", panel.name, head);
    if (panel.caption) make("p", "caption", panel.caption, head);
    const cut = [];
    for (const [cloud, what] of [[panel.ellipsoids, "ellipsoids"], [panel.points, "points"]]) {
      if (!cloud) continue;
      if (cloud.count < cloud.total) cut.push(`${number(cloud.count)} of ${number(cloud.total)} ${what} are drawn, evenly chosen`);
    }
    make("p", "counts", "", head);
    if (cut.length) make("p", "cut", cut.join("; "), head);
    if (panel.tracks.length) {
      const list = make("p", "tracks", "", head);
      for (const track of panel.tracks) {
        const item = make("span", "", "", list);
        make("i", "", "", item).style.background = hexOfRgb(track.color);
        item.append(track.name);
      }
    }
    if (panel.layers.length) makeLayerSwitches(panel, head, toggleLayer);
    if (scene.panels.length > 1) {
      const button = make("button", "alone", "", frame);
      button.type = "button";
      button.title = `Show only this panel, or all (${i + 1})`;
      button.setAttribute("aria-label", `Show only ${panel.name}, or all`);
      button.innerHTML = '<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M9.5 2.5h4v4M6.5 13.5h-4v-4M13.2 2.8 9.6 6.4M2.8 13.2l3.6-3.6"/></svg>';
      button.addEventListener("click", () => choose(i));
    }
    return frame;
  });
}

// A switch for each layer in a panel's head, such as the samples that were added to a scan; the same name in several panels is one layer.
function makeLayerSwitches(panel, head, toggle) {
  const list = make("p", "layers", "", head);
  panel.layers.forEach((layer, i) => {
    const label = make("label", "", "", list), input = make("input", "", "", label);
    input.type = "checkbox";
    input.checked = true;
    input.dataset.layer = layer.name;
    input.addEventListener("change", () => toggle(layer.name, input.checked));
    make("i", "", "", label).style.background = hexOfRgb(layer.color);
    const { points, ellipsoids } = panel.parts[i];
    const count = points ? ` (${number(points.count)} points)` : ellipsoids ? ` (${number(ellipsoids.count)} ellipsoids)` : "";
    make("span", "", layer.name + count, label);
  });
}

function tellLayers(hidden) {
  for (const input of document.querySelectorAll("input[data-layer]")) input.checked = !hidden.has(input.dataset.layer);
}

const layerNames = (scene) => [...new Set(scene.panels.flatMap((panel) => panel.layers.map((layer) => layer.name)))];

// Each panel's counts, and the sigma of its ellipsoids; in a timeline, those of the current frame.
function tellCounts(scene, frames, state) {
  const said = (cloud, sigma) => (cloud.directionsOnly ? `${number(cloud.total)} directions` : `${number(cloud.total)} ellipsoids at ${sigma.toFixed(2)} σ`);
  scene.panels.forEach((panel, i) => {
    const one = panel.frames && state.when === "one", shown = one ? panel.frames.parts[state.moment] : panel, parts = [];
    if (shown.ellipsoids) parts.push(said(shown.ellipsoids, state.sigma * panel.sigmaScale));
    if (shown.points) {
      const { total, count: drawn } = shown.points;
      parts.push(one && drawn < total ? `${number(drawn)} of ${number(total)} points` : `${number(total)} points`);
    }
    frames[i].querySelector(".counts").textContent = parts.join(" · ");
  });
}

function makeColors(scene, choose) {
  const given = scene.panels.some((p) => (p.points && p.points.color) || (p.ellipsoids && p.ellipsoids.color));
  const shaped = scene.panels.some((p) => (p.ellipsoids && !p.ellipsoids.directionsOnly) || (p.frames && p.frames.ellipsoids));
  const layered = layerNames(scene).length > 0;
  const inputs = {};
  for (const [name, title] of COLORS) {
    if ((name === "own" && !given) || (name === "layer" && !layered) || (!shaped && (name === "planarity" || name === "uncertainty"))) continue;
    const label = make("label", "", "", find("colors")), input = make("input", "", "", label);
    input.type = "radio";
    input.name = "color";
    input.value = name;
    input.addEventListener("change", () => choose(name));
    make("span", "", title, label);
    inputs[name] = input;
  }
  return inputs;
}

const WHAT_SCALES_TELL = {
  planarity: "planarity", uncertainty: "thickness (1 σ along the normal)", height: "height (z)",
};

// The ball of normals rotates with the camera; scales are bars with a title and their limits.
function drawLegend(element, color, axes, scene) {
  if (element.dataset.color !== color) {
    element.dataset.color = color;
    element.replaceChildren();
    if (color === "normal") {
      const ball = make("canvas", "ball", "", element);
      ball.width = ball.height = 2 * BALL;
      make("span", "words", "direction of the surface", element);
    } else if (fieldOf(color) !== null) {
      const { what, low, high } = fieldLegend(scene.fields.find((field) => field.name === fieldOf(color)));
      drawScale(element, "field", what, [low, high]);
    } else if (color === "layer") {
      make("span", "words", "one color per layer, named in each panel", element);
    } else if (color !== "own") {
      const [low, high] = scene.ranges[color] || [0, 1], base = scene.origin[2];
      const texts = {
        planarity: ["0 line, ball", "plane 1"],
        uncertainty: [length(low), "logarithmic", length(high)],
        height: [length(low + base), length(high + base)],
      }[color];
      drawScale(element, color, WHAT_SCALES_TELL[color], texts);
    } else {
      make("span", "words", "colors from the data", element);
    }
  }
  if (color === "normal") drawBall(element.querySelector("canvas"), axes);
}

function drawScale(element, scale, what, ends) {
  const box = make("div", "scale", "", element);
  make("div", "what", what, box).title = what;
  const bar = make("i", "bar", "", box), row = make("div", "ends", "", box);
  const stops = Array.from({ length: 17 }, (_, i) => hexOfRgb(rgbOfScale(scale, i / 16)));
  bar.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
  for (const text of ends) make("span", "", text, row);
}

const BALL = 26;  // CSS pixels

function drawBall(canvas, { right, up, back }) {
  const context = canvas.getContext("2d"), side = canvas.width, radius = side / 2 - 1, image = context.createImageData(side, side);
  for (let row = 0; row < side; row++) {
    for (let column = 0; column < side; column++) {
      const x = (column + 0.5 - side / 2) / radius, y = (side / 2 - row - 0.5) / radius, rr = x * x + y * y;
      if (rr > 1.06) continue;
      const z = Math.sqrt(Math.max(1 - rr, 0));
      const n = add(add(times(x, right), times(y, up)), times(z, back)), l = Math.max(norm(n), 1e-6);
      const shade = 0.86 + 0.14 * z, edge = clamp((1.03 - Math.sqrt(rr)) * radius, 0, 1);
      image.data.set([...rgbOfNormal(times(1 / l, n)).map((c) => 255 * c * shade), 255 * edge], 4 * (row * side + column));
    }
  }
  context.putImageData(image, 0, 0);
}

// A round length in meters that is about 90 pixels long, at the pivot's distance.
function scaleBar(metersPerPixel) {
  const wanted = 90 * metersPerPixel, power = 10 ** Math.floor(Math.log10(wanted));
  const round = power * [1, 2, 5, 10].reduce((best, step) => (step * power <= wanted * 1.01 ? step : best), 1);
  return { pixels: round / metersPerPixel, text: length(round) };
}

function describePrecision(scene) {
  find("precision").textContent = `To keep this file small, positions are rounded to ${length(scene.rounding)}, sizes to 0.05 %, and normals to
    half a degree for their colors; fields to 1 / 130,000 of their range. The file is self-contained and makes no network requests.`;
}

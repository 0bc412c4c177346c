// --- State, drawing loop and event handlers of the page.

const PIXEL_RATIO_LIMIT = 2;
const SLOW = 40, QUICK = 25;  // milliseconds per frame while the view moves: draw less above, more below
// What is drawn while the view moves, on ever slower machines: the resolution, and the share of points and ellipsoids.
const LEVELS = [
  { ratio: 1, share: 1 }, { ratio: 0.75, share: 1 / 4 }, { ratio: 0.5, share: 1 / 4 }, { ratio: 0.5, share: 1 / 16 }, { ratio: 0.5, share: 1 / 64 },
];
const IDLE = 50;  // milliseconds
const STILL = 160;  // milliseconds without motion, at least

const scene = decodeScene(JSON.parse(find("poli-data").textContent));
const state = {
  sigma: scene.sigma, color: scene.color, theme: scene.theme, size: scene.pointSize, ellipsoids: true, points: true, tracks: true, only: null,
  samples: SAMPLES, pixelRatio: 1, clip: NO_CLIP, hidden: new Set(), moment: 0, when: "all", follow: false,
};
if (timelineOf(scene) && !timelineOf(scene).shareWorld) state.when = "one";
const camera = new Camera(scene.camera, scene.box);
const stage = find("stage"), canvas = find("canvas");
let renderer = null, boxes = [], frames = 0, sample = 0, asked = false, moving = false, last = 0, pace = 0, still = 0;
let level = 0, leastLevel = 0, ended = 0, size = [1, 1];

// --- showing

function changed(moves = false) {
  sample = 0;
  if (moves) {
    moving = true;
    clearTimeout(still);
    still = setTimeout(() => { moving = false; changed(); }, Math.max(STILL, 2 * pace));
  }
  ask();
}

const samples = () => Math.min(state.samples, renderer.samples);

function ask() {
  if (asked || !renderer) return;
  asked = true;
  if (performance.now() - ended > IDLE) last = performance.now();  // nothing was drawn meanwhile
  requestAnimationFrame(show);
}

function show(now) {
  asked = false;
  if (!renderer || renderer.gl.isContextLost()) return;
  adapt(now);
  const pixels = boxes.map((box) => ({
    panel: box.panel, ...Object.fromEntries(["x", "y", "width", "height"].map((key) => [key, box[key] * state.pixelRatio])),
  }));
  const { ratio, share } = LEVELS[moving ? level : 0];
  const [width, height] = size.map((side) => Math.max(1, Math.round(side * ratio)));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });  // the browser scales it up
  renderer.draw(camera.view, pixels, state, sample, { ratio, share, direct: moving });
  find("pace").hidden = !moving || !level;
  if (sample === 0) drawAround();
  frames += 1;
  sample += 1;
  ended = performance.now();
  if (!moving && sample < samples()) ask();
}

// On slow machines, less is drawn while the view moves; a still view is always drawn completely. A level that was too slow is not
// tried again until something else is shown.
function adapt(now) {
  const took = now - last;
  last = now;
  if (!moving) {
    pace = took;
    return;
  }
  if (pace > SLOW && !level) level = pace > 20 * SLOW ? 4 : pace > 8 * SLOW ? 3 : pace > 3 * SLOW ? 2 : 1;  // as slow as the still view was
  else if (took > SLOW && level < LEVELS.length - 1) leastLevel = ++level;
  else if (took < QUICK && level > leastLevel) level -= 1;
  pace = took;
  if (level) find("pace").textContent = paceText(LEVELS[level]);
}

const paceText = ({ ratio, share }) => `while moving: 1 of ${Math.round(1 / share)} points and ellipsoids, ${ratio === 0.5 ? "half" : "3/4"} resolution`;

function drawAround() {
  probe.draw(boxes, state);
  drawLegend(find("legend"), state.color, camera.axes, scene);
  const box = boxes[boxes.length - 1];
  if (!box) return;
  const bar = scaleBar((2 * camera.distance) / (camera.focal(box.width / box.height)[1] * box.height));
  ruler.style.width = `${bar.pixels}px`;
  if (ruler.textContent !== bar.text) ruler.textContent = bar.text;  // painting costs time
  ruler.style.right = `${stage.clientWidth - box.x - box.width + 16}px`;
  ruler.style.bottom = `${stage.clientHeight - box.y - box.height + 14}px`;
}

function arrange() {
  const width = stage.clientWidth, height = stage.clientHeight;
  state.pixelRatio = Math.min(window.devicePixelRatio || 1, PIXEL_RATIO_LIMIT);
  size = [width, height].map((side) => Math.max(1, Math.round(side * state.pixelRatio)));
  boxes = boxesOf(scene.panels.length, state.only, width, height);
  frameElements.forEach((frame, i) => {
    const box = boxes.find((b) => b.panel === i);
    frame.hidden = !box;
    if (box) Object.assign(frame.style, Object.fromEntries([["left", box.x], ["top", box.y], ["width", box.width], ["height", box.height]].map(([key, value]) => [key, `${value}px`])));
  });
  changed();
}

// --- state; every change goes through `set`

function set(part) {
  Object.assign(state, part);
  if (!("moment" in part)) leastLevel = 0;
  document.documentElement.dataset.theme = state.theme;
  find("sigma").value = state.sigma;
  find("sigma-value").textContent = `${state.sigma.toFixed(2)} σ`;
  find("size").value = state.size;
  find("size-value").textContent = `${state.size} px`;
  for (const what of ["ellipsoids", "points", "tracks"]) find(`show-${what}`).checked = state[what];
  for (const [name, input] of Object.entries(colorInputs)) input.checked = name === state.color;
  tellField(state.color);
  tellLayers(state.hidden);
  if (timeline) timeline.tell();
  tellCounts(scene, frameElements, state);
  if ("only" in part) arrange();
  else changed(Boolean(timeline && timeline.playing));
}

const knowsColor = (color) => Boolean(colorInputs[color]) || scene.fields.some((field) => FIELD + field.name === color);
const toggleLayer = (name, on) => {
  const hidden = new Set(state.hidden);
  if (on) hidden.delete(name);
  else hidden.add(name);
  set({ hidden });
};

const alone = (panel) => set({ only: state.only === panel ? null : panel });
const reset = () => { camera.reset(); changed(); };
const turned = () => changed(true);

const frameElements = makeFrames(scene, alone, toggleLayer);
const tellField = makeFieldMenu(scene, (color) => set({ color }));
const probe = new Probe(scene, camera, () => changed());
const timeline = makeTimeline(scene, state, set, (by) => { camera.target = add(camera.target, by); });
const clip = makeClip(scene, (limits) => { state.clip = limits; changed(); });
const ruler = make("div", "ruler", "", stage);
const colorInputs = makeColors(scene, (color) => set({ color }));
find("title").textContent = scene.title;
find("note").textContent = scene.note;
find("note").hidden = !scene.note;
find("sigma").max = scene.mostSigma;
find("sigma-slider").hidden = find("ellipsoids-toggle").hidden = !scene.panels.some((p) => p.ellipsoids || (p.frames && p.frames.ellipsoids));
find("tracks-toggle").hidden = !scene.panels.some((panel) => panel.tracks.length);
describePrecision(scene);

find("sigma").addEventListener("input", (event) => set({ sigma: Number(event.target.value) }));
find("size").addEventListener("input", (event) => set({ size: Number(event.target.value) }));
for (const what of ["ellipsoids", "points", "tracks"]) {
  find(`show-${what}`).addEventListener("change", (event) => set({ [what]: event.target.checked }));
}
const otherTheme = () => set({ theme: state.theme === "dark" ? "light" : "dark" });
const toggleHelp = (open = find("about").hidden) => {
  find("about").hidden = !open;
  find("help").setAttribute("aria-expanded", String(open));
};
const toggleClip = (open = find("clip-panel").hidden) => {
  find("clip-panel").hidden = !open;
  find("clip").setAttribute("aria-expanded", String(open));
};
find("clip").addEventListener("click", () => toggleClip());
find("reset").addEventListener("click", reset);
find("theme").addEventListener("click", otherTheme);
find("help").addEventListener("click", () => toggleHelp());
followPointers(canvas, camera, () => (boxes.length ? [boxes[0].width, boxes[0].height] : [1, 1]), turned, reset,
  (x, y) => probe.click(x, y, boxes, state));

const KEYS = {
  r: reset, d: otherTheme, "?": () => toggleHelp(), e: () => set({ ellipsoids: !state.ellipsoids }), p: () => set({ points: !state.points }),
  m: () => probe.measure(!probe.measuring), c: () => toggleClip(),
  Escape: () => { toggleHelp(false); toggleClip(false); probe.measure(false); set({ only: null }); },
  ArrowLeft: () => { camera.turn(-20, 0); turned(); }, ArrowRight: () => { camera.turn(20, 0); turned(); },
  ArrowUp: () => { camera.turn(0, -20); turned(); }, ArrowDown: () => { camera.turn(0, 20); turned(); },
  "+": () => { camera.zoom(0.9); turned(); }, "=": () => { camera.zoom(0.9); turned(); }, "-": () => { camera.zoom(1 / 0.9); turned(); },
};
if (timeline) Object.assign(KEYS, { " ": timeline.toggle, ",": () => timeline.step(-1), ".": () => timeline.step(1) });
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof HTMLSelectElement) return;
  if (event.key === " " && (event.target instanceof HTMLButtonElement || event.target.type === "checkbox")) return;  // presses it
  if (event.target instanceof HTMLInputElement && event.key.startsWith("Arrow")) return;  // arrow keys move the focused slider
  const panel = Number(event.key) - 1;
  if (KEYS[event.key]) KEYS[event.key]();
  else if (panel >= 0 && panel < scene.panels.length && scene.panels.length > 1) alone(panel);
  else return;
  event.preventDefault();
});

// --- start

function trouble(...lines) {
  find("trouble").replaceChildren(...lines.map((line) => make("p", "", line)));
  find("trouble").hidden = false;
}

function begin() {
  try {
    renderer = new Renderer(canvas, scene);
  } catch (error) {
    renderer = null;
    if (error instanceof NoWebGL) {
      trouble("This page needs WebGL2, which this browser does not offer.",
        "Enable hardware acceleration in its settings, or open this file in a recent Firefox, Chrome, Edge or Safari.");
    } else {
      trouble("The graphics driver failed to draw this page.", String(error.message || error));
    }
    return;
  }
  find("trouble").hidden = true;
  arrange();
}

canvas.addEventListener("webglcontextlost", (event) => {
  event.preventDefault();
  trouble("The page lost access to the GPU; it will be redrawn once access is restored.");
});
canvas.addEventListener("webglcontextrestored", begin);
new ResizeObserver(arrange).observe(stage);

// For tests and scripts: the current state, and functions to change it.
window.poliView = {
  get state() { return { ...state, panels: scene.panels.length, works: renderer !== null }; },
  get camera() { return { target: [...camera.target], yaw: camera.yaw, pitch: camera.pitch, distance: camera.distance }; },
  get frames() { return frames; },
  get level() { return level; },
  get fields() { return scene.fields.map((field) => field.name); },
  get picked() { return probe.report(); },
  get settled() { return renderer !== null && !asked && !moving && sample >= samples(); },
  setSigma: (sigma) => set({ sigma: clamp(Number(sigma), 0, scene.mostSigma) }),
  setColor: (color) => { if (knowsColor(color)) set({ color }); },
  setClip: (low, high) => clip.set(low, high),
  setMoment: (moment) => { if (timeline) timeline.go(moment); },
  play: () => { if (timeline) timeline.toggle(); },
  project: (place) => {  // where a place is in the first panel, as shares of its size
    const box = boxes[0], at = box && project(projectionOf(camera, box), subtract(place, scene.origin));
    return at && { x: (at.x - box.x) / box.width, y: (at.y - box.y) / box.height };
  },
  measure: (on) => probe.measure(on),
  click: (x, y) => probe.click(x, y, boxes, state),
  setTheme: (theme) => { if (THEMES[theme]) set({ theme }); },
  setCamera: (part) => { Object.assign(camera, part); changed(); },
  show: (part) => set(part),
  reset,
};

clip.tell();
set({});
begin();

// --- Click a point to read its numbers; measure between two of them. Marks are drawn over the canvas.

const SVG = "http://www.w3.org/2000/svg";

const coordinates = (place) => place.map((value) => (Math.round(1000 * value) / 1000 + 0).toFixed(3)).join(", ");

// Rows of text about a picked point.
function describePick(scene, panel, picked, viewpoint) {
  const { cloud, row, place, part } = picked, rows = [["position", `${coordinates(add(place, scene.origin))} m`]];
  if (viewpoint) rows.push(["range", meters(norm(subtract(place, viewpoint)), 3)]);
  if (part.layer !== null) rows.push(["layer", panel.layers[part.layer].name]);
  for (const field of scene.fields) {
    const bytes = cloud.scalars[field.name];
    if (bytes) rows.push([field.name, fieldText(field, valueOfCode(field, bytes[2 * row] + 256 * bytes[2 * row + 1]))]);
  }
  if (cloud.turn) {
    const sizes = sizesOf(cloud), axes = axesOf(turnsOf(cloud), row);
    if (!cloud.directionsOnly) rows.push(["axes (1 σ)", [0, 1, 2].map((a) => length(sizes[3 * row + a])).join(" · ")]);
    const facing = cloud.normal ? [0, 1, 2].map((a) => (new Int8Array(cloud.normal.buffer, cloud.normal.byteOffset)[4 * row + a])) : axes[0];
    const side = dot(facing, axes[0]) < 0 ? -1 : 1;
    rows.push(["normal", coordinates(times(side, axes[0]))]);
  }
  return rows;
}

class Probe {
  constructor(scene, camera, changed) {
    Object.assign(this, { scene, camera, changed, picked: [], measuring: false });
    find("measure").addEventListener("click", () => this.measure(!this.measuring));
    find("card-close").addEventListener("click", () => this.clear());
  }

  measure(on) {
    this.measuring = on;
    find("measure").setAttribute("aria-pressed", String(on));
    find("canvas").classList.toggle("aims", on);
    this.clear();
    if (on) this.tell();
  }

  clear() {
    this.picked = [];
    this.tell();
    this.changed();
  }

  // A click at a position of the stage.
  click(x, y, boxes, state) {
    const box = boxes.find((b) => x >= b.x && x < b.x + b.width && y >= b.y && y < b.y + b.height);
    if (!box) return null;
    const panel = this.scene.panels[box.panel], parts = [...spotParts(panel, state), ...visibleParts(panel, state)];
    const found = pick(panel, parts, this.camera, box, state, x, y);
    if (!found) {
      if (!this.measuring) this.clear();
      return null;
    }
    found.panel = panel;
    found.viewpoint = this.viewpoint(panel, found.part, state);
    this.picked = this.measuring && this.picked.length === 1 ? [this.picked[0], found] : [found];
    this.tell();
    this.changed();
    return this.report();
  }

  viewpoint(panel, part, state) {
    const frames = panel.frames, number = frames ? Math.max(frames.parts.indexOf(part), frames.dots.indexOf(part)) : -1;
    return number >= 0 ? frames.positions[number] : panel.viewpoint;
  }

  report() {
    const { origin } = this.scene, texts = this.picked.map((one) => Object.fromEntries(describePick(this.scene, one.panel, one, one.viewpoint)));
    const places = this.picked.map((one) => add(one.place, origin));
    return { places, texts, distance: places.length === 2 ? norm(subtract(places[1], places[0])) : null };
  }

  tell() {
    const card = find("card"), body = find("card-body");
    card.hidden = !this.picked.length && !this.measuring;
    body.replaceChildren();
    if (card.hidden) return;
    const title = this.measuring ? "Measure" : this.picked[0].panel.name;
    find("card-title").textContent = title;
    const list = (rows) => {
      const dl = make("dl", "", "", body);
      for (const [name, text] of rows) {
        make("dt", "", name, dl);
        make("dd", "", text, dl);
      }
    };
    if (!this.measuring) return list(describePick(this.scene, this.picked[0].panel, this.picked[0], this.picked[0].viewpoint));
    if (this.picked.length < 2) {
      make("p", "", this.picked.length ? "Click the second point." : "Click two points.", body);
      if (!this.picked.length) return;
    }
    const [a, b] = this.picked;
    if (b) {
      const d = subtract(b.place, a.place);
      list([["distance", meters(norm(d), 3)], ["dx, dy, dz", `${coordinates(d)} m`], ["horizontal", meters(Math.hypot(d[0], d[1]), 3)]]);
    }
    list(this.picked.map((one, i) => ["AB"[i], `${coordinates(add(one.place, this.scene.origin))} m`]));
  }

  // Marks of picked points, the measured line, and the sensor of the current frame, in every panel.
  draw(boxes, state) {
    const marks = find("marks");
    marks.replaceChildren();
    const shape = (kind, parts) => {
      const element = document.createElementNS(SVG, kind);
      for (const [key, value] of Object.entries(parts)) element.setAttribute(key, value);
      marks.append(element);
      return element;
    };
    for (const box of boxes) {
      const view = projectionOf(this.camera, box), frames = this.scene.panels[box.panel].frames;
      const seen = (place) => {
        const at = isInside(state.clip, place) ? project(view, place) : null;
        return at && at.x > box.x && at.x < box.x + box.width && at.y > box.y && at.y < box.y + box.height ? at : null;
      };
      const sensor = frames && state.when !== "all" && state.tracks && frames.positions[state.moment];
      const here = sensor && seen(sensor);
      if (here) shape("circle", { cx: here.x, cy: here.y, r: 6, class: "sensor" });
      const places = this.picked.map((one) => seen(one.place));
      if (places[0] && places[1]) {
        const [a, b] = places;
        shape("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, class: "measured" });
        const text = shape("text", { x: 0.5 * (a.x + b.x), y: 0.5 * (a.y + b.y) - 8, class: "measured-text" });
        text.textContent = length(norm(subtract(this.picked[1].place, this.picked[0].place)));
      }
      for (const at of places) if (at) shape("circle", { cx: at.x, cy: at.y, r: 5, class: "picked" });
    }
  }
}

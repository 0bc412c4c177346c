// --- Drawing: all panels on one canvas. The scene is rendered to a texture, post-processed, and accumulated into the mean of
// several pictures with subpixel shifts, which is shown.

const SAMPLES = 12;  // pictures averaged for a still view
const TRACK_WIDTH = 3;  // CSS pixels
const FRAME_SIZE = 2;  // CSS pixels, at least, of the points of a single scan; the map has more points than that
const FRAMES_KEPT = 16;  // frames of a timeline on the GPU
const SPOT = { dark: "#ff5aa5", light: "#d1006b" };  // points of a frame over the map, a color of no scale

class Renderer extends Gpu {
  constructor(canvas, scene) {
    super(canvas);
    const gl = this.gl;
    this.scene = scene;
    this.fine = Boolean(gl.getExtension("EXT_color_buffer_float") || gl.getExtension("EXT_color_buffer_half_float"));
    this.samples = this.fine ? SAMPLES : 4;  // averaging many pictures needs more than eight bits
    this.programs = {
      ellipsoid: this.program(ELLIPSOID_VERTEX, ELLIPSOID_FRAGMENT),
      point: this.program(POINT_VERTEX, POINT_FRAGMENT),
      track: this.program(TRACK_VERTEX, TRACK_FRAGMENT),
      backdrop: this.program(RECTANGLE_VERTEX, BACKDROP_FRAGMENT),
      finish: this.program(RECTANGLE_VERTEX, FINISH_FRAGMENT),
      copy: this.program(RECTANGLE_VERTEX, COPY_FRAGMENT),
    };
    this.nothing = gl.createVertexArray();  // a rectangle over the whole panel needs no attributes
    this.scales = this.scaleTexture();
    this.uploaded = new Map();  // by part
    this.recent = new Map();  // frames of timelines, those shown most recently at the end
    this.tracks = scene.panels.map((panel) => panel.tracks.filter((track) => track.count > 1).map((track) => this.uploadTrack(track)));
    for (const panel of scene.panels) for (const part of panel.parts) this.made(part);
    this.targets = null;
  }

  // A part on the GPU.
  made(part) {
    if (!this.uploaded.has(part)) {
      this.uploaded.set(part, {
        layer: part.layer,
        ellipsoids: part.ellipsoids && this.uploadCloud(part.ellipsoids),
        points: part.points && this.uploadCloud(part.points),
      });
    }
    return this.uploaded.get(part);
  }

  // A frame of a timeline is uploaded when it is shown; the ones shown least recently are removed.
  madeFrame(part) {
    this.recent.delete(part);
    this.recent.set(part, true);
    if (this.recent.size > FRAMES_KEPT) {
      const oldest = this.recent.keys().next().value, { points, ellipsoids } = this.made(oldest);
      this.recent.delete(oldest);
      this.uploaded.delete(oldest);
      for (const cloud of [points, ellipsoids]) if (cloud) this.discard(cloud);
    }
    return this.made(part);
  }

  // Each rectangle has four vertices with the same attributes instead of being an instance: software drivers take twenty
  // microseconds per instance, regardless of its size. Attributes have types that need no conversion by the driver, which would
  // take longer than drawing.
  uploadCloud(cloud) {
    const gl = this.gl, copies = cloud.turn ? 4 : 1, names = Object.keys(cloud.scalars);
    const normal = cloud.normal || (cloud.turn && normalsOfTurns(cloud.turn));
    const parts = [{ name: "place", data: floatPlaces(cloud), size: 3, type: gl.FLOAT }];
    if (cloud.turn) parts.push({ name: "turn", data: cloud.turn, size: 4, type: gl.SHORT, unit: true });
    if (cloud.size) parts.push({ name: "size", data: widerRows(cloud.size, 6, 8), size: 4, type: gl.HALF_FLOAT });
    if (normal) parts.push({ name: "normal", data: normal, size: 4, type: gl.BYTE, unit: true });
    if (cloud.color) parts.push({ name: "color", data: cloud.color, size: 4, type: gl.UNSIGNED_BYTE, unit: true });
    if (names.length) parts.push({ name: "scalar", data: floatCodes(cloud.scalars[names[0]]), size: 1, type: gl.FLOAT });
    for (const part of parts) {
      const width = part.data.length / cloud.count;  // bytes per row
      part.buffer = this.buffer(rowsFor(part.data, width, copies));
      part.stride = width * copies;
    }
    const made = {
      count: cloud.count,
      knows: (normal ? 1 : 0) + (cloud.size && !cloud.directionsOnly ? 2 : 0) + (cloud.color ? 4 : 0),
      scalars: cloud.scalars,
      scalar: names.length ? { buffer: parts[parts.length - 1].buffer, holds: names[0], copies } : null,
      asPoints: this.arrays(parts.filter((part) => part.name !== "turn")),
      asEllipsoids: cloud.turn && this.arrays(parts.map((part) => ({ ...part, stride: part.stride / copies })), cloud.count),
    };
    made.buffers = [...parts.map((part) => part.buffer), ...(made.asEllipsoids ? [made.asEllipsoids.order] : [])];
    return made;
  }

  // The chosen field replaces the one in the cloud's buffer. Returns whether the cloud has it.
  choose(made, name) {
    if (!made.scalar || !made.scalars[name]) return false;
    if (made.scalar.holds !== name) {
      const gl = this.gl, data = made.scalars[name], { buffer, copies } = made.scalar;
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.bufferData(gl.ARRAY_BUFFER, rowsFor(floatCodes(data), 4, copies), gl.STATIC_DRAW);
      made.scalar.holds = name;
    }
    return true;
  }

  discard(cloud) {
    for (const buffer of cloud.buffers) this.gl.deleteBuffer(buffer);
    for (const arrays of [cloud.asPoints, cloud.asEllipsoids]) if (arrays) this.gl.deleteVertexArray(arrays);
  }

  uploadTrack(track) {
    const gl = this.gl, segments = track.count - 1, bytes = new Uint8Array(track.place.buffer);
    const end = (name, offset) => {
      const rows = repeatRows(bytes.subarray(offset, offset + 12 * segments), 12, 4);
      return { name, buffer: this.buffer(rows), size: 3, type: gl.FLOAT };
    };
    return { arrays: this.arrays([end("from", 0), end("to", 12)], segments), segments, color: track.color };
  }

  scaleTexture() {
    const gl = this.gl, names = SCALE_ROWS, bytes = new Uint8Array(names.length * 4 * SCALE_STEPS);
    names.forEach((name, row) => bytes.set(scaleBytes(name), row * 4 * SCALE_STEPS));
    return this.texture(gl.RGBA8, SCALE_STEPS, names.length, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
  }

  resize(width, height) {
    if (this.targets && this.targets.width === width && this.targets.height === height) return;
    const gl = this.gl, old = this.targets;
    if (old) {
      for (const texture of [old.color, old.depth, old.mean]) gl.deleteTexture(texture);
      for (const frame of [old.scene, old.sum]) gl.deleteFramebuffer(frame);
    }
    const color = this.texture(gl.RGBA8, width, height, gl.RGBA, gl.UNSIGNED_BYTE);
    const depth = this.texture(gl.DEPTH_COMPONENT32F, width, height, gl.DEPTH_COMPONENT, gl.FLOAT);
    const mean = this.fine
      ? this.texture(gl.RGBA16F, width, height, gl.RGBA, gl.HALF_FLOAT, null, gl.LINEAR)
      : this.texture(gl.RGBA8, width, height, gl.RGBA, gl.UNSIGNED_BYTE, null, gl.LINEAR);
    const scene = this.target([[gl.COLOR_ATTACHMENT0, color], [gl.DEPTH_ATTACHMENT, depth]]);
    const sum = this.target([[gl.COLOR_ATTACHMENT0, mean]]);
    this.targets = { width, height, color, depth, mean, scene, sum };
  }

  // --- drawing

  // Picture number `sample` of the mean, or, with `direct`, a single one, which takes half the time. `boxes` are the panels' places
  // on the page in device pixels from its upper left corner; the canvas has `ratio` of their resolution. Fewer points than all, a
  // `share` of them, are drawn larger.
  draw(view, boxes, state, sample, { ratio, share, direct }) {
    this.share = share;
    const gl = this.gl, canvas = gl.canvas;
    this.resize(canvas.width, canvas.height);
    const { width, height, scene, sum, color, depth, mean } = this.targets;
    const shift = [(0.5 + sample * 0.7548776662) % 1 - 0.5, (0.5 + sample * 0.5698402910) % 1 - 0.5];  // spread evenly
    gl.bindFramebuffer(gl.FRAMEBUFFER, scene);
    gl.disable(gl.BLEND);
    gl.enable(gl.DEPTH_TEST);
    gl.enable(gl.SCISSOR_TEST);
    gl.viewport(0, 0, width, height);
    gl.scissor(0, 0, width, height);
    gl.clearColor(...rgbOfHex(THEMES[state.theme].page), 1);
    gl.clearDepth(0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    for (const box of boxes) {
      const [x, y, w, h] = [box.x, box.y, box.width, box.height].map((value) => Math.round(value * ratio));
      if (w < 1 || h < 1) continue;
      gl.viewport(x, height - y - h, w, h);
      gl.scissor(x, height - y - h, w, h);
      this.drawPanel(box.panel, view, [w, h], shift, state, ratio);
    }
    gl.disable(gl.SCISSOR_TEST);
    gl.disable(gl.DEPTH_TEST);
    gl.viewport(0, 0, width, height);
    gl.bindVertexArray(this.nothing);
    gl.bindFramebuffer(gl.FRAMEBUFFER, direct ? null : sum);
    if (sample > 0 && !direct) {
      gl.enable(gl.BLEND);
      gl.blendColor(0, 0, 0, 1 / (sample + 1));
      gl.blendFunc(gl.CONSTANT_ALPHA, gl.ONE_MINUS_CONSTANT_ALPHA);
    }
    this.bind(0, color);
    this.bind(1, depth);
    const radius = Math.max(1, Math.round(state.pixelRatio * ratio));
    this.use("finish", { uColor: 0, uDepth: 1, uStrength: 3.2, uRadius: radius });
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    gl.disable(gl.BLEND);
    this.bind(1, null);
    if (!direct) {
      gl.bindFramebuffer(gl.FRAMEBUFFER, null);
      this.bind(0, mean);
      this.use("copy", { uColor: 0 });
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    }
    gl.bindVertexArray(null);
  }

  drawPanel(number, view, [w, h], shift, state, ratio) {
    const gl = this.gl, panel = this.scene.panels[number], theme = THEMES[state.theme], ranges = this.scene.ranges;
    const focal = view.focal(w / h);
    const common = {
      uTurn: view.turn, uEye: view.eye, uFocal: focal, uNear: view.near, uJitter: [2 * shift[0] / w, 2 * shift[1] / h],
      uPixel: 2 / (focal[1] * h), uLight: view.light, uPivot: view.distance, uPixels: [w, h],
      uMode: MODES[modeOf(state.color)], uClipLow: state.clip.low, uClipHigh: state.clip.high, uLayer: rgbOfHex(theme.plain), uPlain: rgbOfHex(theme.plain), uUnknown: rgbOfHex(theme.unknown),
      uUncertainty: ranges.uncertainty.map(Math.log), uHeight: ranges.height, uScales: 0,
    };
    gl.disable(gl.DEPTH_TEST);
    gl.bindVertexArray(this.nothing);
    this.use("backdrop", { uTop: rgbOfHex(theme.top), uBottom: rgbOfHex(theme.bottom) });
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.GREATER);
    this.bind(0, this.scales);
    for (const part of visibleParts(panel, state)) {
      const isFrame = panel.frames && state.when === "one";
      this.drawPart(isFrame ? this.madeFrame(part) : this.made(part), panel, common, state, ratio);
    }
    for (const part of spotParts(panel, state)) {
      const spot = { uMode: MODES.layer, uLayer: rgbOfHex(SPOT[state.theme]) };
      const { points } = this.made(part);
      if (points) this.drawPoints(points, { ...common, ...spot }, 0.997, (state.size + 1) * state.pixelRatio * ratio);
    }
    if (state.tracks) this.tracks[number].forEach((track, i) => this.drawTrack(track, i, common, state, ratio));
  }

  drawPart(part, panel, common, state, ratio) {
    const gl = this.gl, sigma = state.sigma * panel.sigmaScale;
    const colored = part.layer === null ? common : { ...common, uLayer: panel.layers[part.layer].color };
    if (state.ellipsoids && sigma > 0 && part.ellipsoids) {
      this.use("ellipsoid", { ...colored, ...this.place(part.ellipsoids, state), uSigma: sigma });
      gl.bindVertexArray(part.ellipsoids.asEllipsoids);
      gl.drawElements(gl.TRIANGLES, 6 * Math.ceil(part.ellipsoids.count * this.share), gl.UNSIGNED_INT, 0);
    }
    const cloud = part.points || part.ellipsoids;  // a part without points shows the means
    if (!state.points || !cloud) return;
    const yields = state.ellipsoids && sigma > 0 ? 1.005 : 1;
    const size = panel.frames && state.when === "one" ? Math.max(state.size, FRAME_SIZE) : state.size;
    this.drawPoints(cloud, { ...colored, ...this.place(cloud, state) }, yields, size * state.pixelRatio * ratio);
  }

  place(cloud, state) {
    const name = fieldOf(state.color), field = name && this.scene.fields.find((one) => one.name === name);
    const has = Boolean(field) && field.high > field.low && this.choose(cloud, name);  // a constant has no scale
    const uField = has ? shareOfCodes(field) : [0, 0];
    return { uKnows: cloud.knows + (has ? 8 : 0), uField };
  }

  drawPoints(cloud, values, uYield, uPoint) {
    const gl = this.gl;
    this.use("point", { uKnows: cloud.knows, ...values, uYield, uPoint: uPoint * this.share ** -0.2 });
    gl.bindVertexArray(cloud.asPoints);
    gl.drawArrays(gl.POINTS, 0, Math.ceil(cloud.count * this.share));
  }

  // Faint if hidden, opaque if visible. Each track is wider than the previous ones and behind them, so that overlapping tracks
  // are all visible.
  drawTrack(track, number, common, state, ratio) {
    const gl = this.gl, width = TRACK_WIDTH * (1 + number) * state.pixelRatio * ratio;
    gl.bindVertexArray(track.arrays);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    for (const [alpha, test, write] of [[0.3, gl.LESS, false], [1, gl.GEQUAL, true]]) {
      gl.depthFunc(test);
      gl.depthMask(write);
      this.use("track", { ...common, uColor: [...track.color, alpha], uWidth: width, uNearer: 1.004 - 0.001 * Math.min(number, 3) });
      gl.drawElements(gl.TRIANGLES, 6 * track.segments, gl.UNSIGNED_INT, 0);
    }
    gl.depthMask(true);
    gl.disable(gl.BLEND);
  }
}

// Rows as the GPU gets them: mixed, and `copies` of each, one per vertex.
function rowsFor(data, width, copies) {
  const mixed = evenRows(data, width);
  return copies === 1 ? mixed : repeatRows(mixed, width, copies);
}

function floatPlaces(cloud) {
  const values = placesOf(cloud), { start, step, float } = cloud.place, places = new Float32Array(values.length);
  for (let i = 0; i < values.length; i++) places[i] = float ? values[i] : start[i % 3] + step[i % 3] * values[i];
  return new Uint8Array(places.buffer);
}

function floatCodes(bytes) {
  return new Uint8Array(Float32Array.from(new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2)).buffer);
}

// Rows of `width` bytes, followed by zeros up to `wider`.
function widerRows(bytes, width, wider) {
  const rows = new Uint8Array((bytes.length / width) * wider);
  for (let from = 0, to = 0; from < bytes.length; from += width, to += wider) for (let b = 0; b < width; b++) rows[to + b] = bytes[from + b];
  return rows;
}

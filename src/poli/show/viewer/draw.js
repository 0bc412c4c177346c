// --- Drawing: all panels on one canvas. The scene is rendered to a texture, post-processed, and accumulated into the mean of
// several pictures with subpixel shifts, which is shown.

const SAMPLES = 12;  // pictures averaged for a still view
const TRACK_WIDTH = 3;  // CSS pixels

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
    this.panels = scene.panels.map((panel) => this.upload(panel));
    this.targets = null;
  }

  upload(panel) {
    return {
      ellipsoids: panel.ellipsoids && this.uploadCloud(panel.ellipsoids),
      points: panel.points && this.uploadCloud(panel.points),
      tracks: panel.tracks.filter((track) => track.count > 1).map((track) => this.uploadTrack(track)),
    };
  }

  // Each rectangle has four vertices with the same attributes instead of being an instance: software drivers take twenty
  // microseconds per instance, regardless of its size.
  uploadCloud(cloud) {
    const gl = this.gl;
    const parts = [{ name: "place", data: cloud.place.bytes, size: 3, type: cloud.place.float ? gl.FLOAT : gl.UNSIGNED_SHORT }];
    if (cloud.turn) parts.push({ name: "turn", data: cloud.turn, size: 4, type: gl.SHORT, unit: true });
    if (cloud.size) parts.push({ name: "size", data: cloud.size, size: 3, type: gl.HALF_FLOAT });
    if (cloud.normal) parts.push({ name: "normal", data: cloud.normal, size: 4, type: gl.BYTE, unit: true });
    if (cloud.color) parts.push({ name: "color", data: cloud.color, size: 4, type: gl.UNSIGNED_BYTE, unit: true });
    const copies = cloud.turn ? 4 : 1;
    for (const part of parts) {
      const width = part.data.length / cloud.count;  // bytes per row
      part.buffer = this.buffer(copies === 1 ? part.data : repeatRows(part.data, width, copies));
      part.stride = width * copies;
    }
    return {
      count: cloud.count,
      start: cloud.place.start,
      step: cloud.place.step,
      knows: (cloud.normal ? 1 : 0) + (cloud.size && !cloud.directionsOnly ? 2 : 0) + (cloud.color ? 4 : 0),
      asPoints: this.arrays(parts.filter((part) => part.name !== "turn")),
      asEllipsoids: cloud.turn && this.arrays(parts.map((part) => ({ ...part, stride: part.stride / copies })), cloud.count),
    };
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
    const gl = this.gl, names = ["planarity", "uncertainty", "height"], bytes = new Uint8Array(names.length * 4 * SCALE_STEPS);
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

  // Picture number `sample` of the mean. `boxes` are the panels' places on the canvas in pixels from its upper left corner.
  draw(view, boxes, state, sample, ratio) {
    const gl = this.gl, canvas = gl.canvas;
    this.resize(Math.max(1, Math.round(canvas.width * ratio)), Math.max(1, Math.round(canvas.height * ratio)));
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
      this.drawPanel(this.panels[box.panel], this.scene.panels[box.panel], view, [w, h], shift, state, ratio);
    }
    gl.disable(gl.SCISSOR_TEST);
    gl.disable(gl.DEPTH_TEST);
    gl.viewport(0, 0, width, height);
    gl.bindVertexArray(this.nothing);
    gl.bindFramebuffer(gl.FRAMEBUFFER, sum);
    if (sample > 0) {
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
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.viewport(0, 0, canvas.width, canvas.height);
    this.bind(1, null);
    this.bind(0, mean);
    this.use("copy", { uColor: 0 });
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    gl.bindVertexArray(null);
  }

  drawPanel(made, panel, view, [w, h], shift, state, ratio) {
    const gl = this.gl, theme = THEMES[state.theme], ranges = this.scene.ranges;
    const focal = view.focal(w / h);
    const common = {
      uTurn: view.turn, uEye: view.eye, uFocal: focal, uNear: view.near, uJitter: [2 * shift[0] / w, 2 * shift[1] / h],
      uPixel: 2 / (focal[1] * h), uLight: view.light, uPivot: view.distance, uPixels: [w, h],
      uMode: MODES[state.color], uPlain: rgbOfHex(theme.plain), uUnknown: rgbOfHex(theme.unknown),
      uUncertainty: ranges.uncertainty.map(Math.log), uHeight: ranges.height, uScales: 0,
    };
    gl.disable(gl.DEPTH_TEST);
    gl.bindVertexArray(this.nothing);
    this.use("backdrop", { uTop: rgbOfHex(theme.top), uBottom: rgbOfHex(theme.bottom) });
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.GREATER);
    this.bind(0, this.scales);
    const place = (cloud) => ({ uStart: cloud.start, uStep: cloud.step, uKnows: cloud.knows });
    const sigma = state.sigma * panel.sigmaScale;
    if (state.ellipsoids && sigma > 0 && made.ellipsoids) {
      this.use("ellipsoid", { ...common, ...place(made.ellipsoids), uSigma: sigma });
      gl.bindVertexArray(made.ellipsoids.asEllipsoids);
      gl.drawElements(gl.TRIANGLES, 6 * made.ellipsoids.count, gl.UNSIGNED_INT, 0);
    }
    const cloud = made.points || made.ellipsoids;  // a panel without points shows the means
    if (state.points && cloud) {
      const uYield = state.ellipsoids && sigma > 0 ? 1.005 : 1;
      this.use("point", { ...common, ...place(cloud), uYield, uPoint: state.size * state.pixelRatio * ratio });
      gl.bindVertexArray(cloud.asPoints);
      gl.drawArrays(gl.POINTS, 0, cloud.count);
    }
    if (state.tracks) made.tracks.forEach((track, i) => this.drawTrack(track, i, common, state, ratio));
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

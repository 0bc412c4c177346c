// --- Drawing: all panels on one canvas. The scene goes to a texture, is finished, and added to a mean of several pictures whose
// pixels are shifted by parts of a pixel; that mean is shown.

const SAMPLES = 12;  // pictures that a still view is the mean of
const TRACK_WIDTH = 3;  // pixels of the page

class Renderer {
  constructor(canvas, scene) {
    const options = { alpha: false, antialias: false, depth: false, stencil: false, powerPreference: "high-performance" };
    const gl = canvas.getContext("webgl2", options);
    if (!gl) throw new NoWebGL();
    this.gl = gl;
    this.scene = scene;
    this.fine = Boolean(gl.getExtension("EXT_color_buffer_float") || gl.getExtension("EXT_color_buffer_half_float"));
    this.samples = this.fine ? SAMPLES : 4;  // the mean of many pictures needs more than eight bits
    this.programs = {
      ellipsoid: this.program(ELLIPSOID_VERTEX, ELLIPSOID_FRAGMENT),
      point: this.program(POINT_VERTEX, POINT_FRAGMENT),
      track: this.program(TRACK_VERTEX, TRACK_FRAGMENT),
      backdrop: this.program(RECTANGLE_VERTEX, BACKDROP_FRAGMENT),
      finish: this.program(RECTANGLE_VERTEX, FINISH_FRAGMENT),
      copy: this.program(RECTANGLE_VERTEX, COPY_FRAGMENT),
    };
    this.corners = this.buffer(new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]));
    this.rectangle = this.arrays([{ name: "corner", buffer: this.corners, size: 2, type: gl.FLOAT }]);
    this.scales = this.scaleTexture();
    this.panels = scene.panels.map((panel) => this.upload(panel));
    this.targets = null;
  }

  // --- making

  program(vertex, fragment) {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(program, shader);
    }
    // The same numbers in every program, so that an array object serves any.
    ATTRIBUTES.forEach((name, place) => gl.bindAttribLocation(program, place, name));
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) throw new Error(gl.getProgramInfoLog(program));
    const uniforms = {};
    for (let i = 0; i < gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS); i++) {
      const { name, type } = gl.getActiveUniform(program, i);
      uniforms[name] = { at: gl.getUniformLocation(program, name), type };
    }
    return { program, uniforms };
  }

  // Use a program with these values; those that it does not know are passed over.
  use(name, values) {
    const gl = this.gl, { program, uniforms } = this.programs[name];
    gl.useProgram(program);
    for (const [key, value] of Object.entries(values)) {
      const uniform = uniforms[key];
      if (!uniform) continue;
      switch (uniform.type) {
        case gl.FLOAT: gl.uniform1f(uniform.at, value); break;
        case gl.FLOAT_VEC2: gl.uniform2fv(uniform.at, value); break;
        case gl.FLOAT_VEC3: gl.uniform3fv(uniform.at, value); break;
        case gl.FLOAT_VEC4: gl.uniform4fv(uniform.at, value); break;
        case gl.FLOAT_MAT3: gl.uniformMatrix3fv(uniform.at, false, value); break;
        default: gl.uniform1i(uniform.at, value);  // whole numbers and textures
      }
    }
  }

  buffer(data) {
    const gl = this.gl, buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
    return buffer;
  }

  arrays(parts) {
    const gl = this.gl, arrays = gl.createVertexArray();
    gl.bindVertexArray(arrays);
    for (const { name, buffer, size, type, unit = false, offset = 0, stride = 0, each = 0 } of parts) {
      const place = ATTRIBUTES.indexOf(name);
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, size, type, unit, stride, offset);
      gl.vertexAttribDivisor(place, each);
    }
    gl.bindVertexArray(null);
    return arrays;
  }

  upload(panel) {
    return {
      ellipsoids: panel.ellipsoids && this.uploadCloud(panel.ellipsoids),
      points: panel.points && this.uploadCloud(panel.points),
      tracks: panel.tracks.filter((track) => track.count > 1).map((track) => {
        const places = this.buffer(track.place), gl = this.gl;
        const end = { buffer: places, size: 3, type: gl.FLOAT, stride: 12, each: 1 };
        const arrays = this.arrays([
          { name: "corner", buffer: this.corners, size: 2, type: gl.FLOAT },
          { name: "from", ...end },
          { name: "to", ...end, offset: 12 },
        ]);
        return { arrays, segments: track.count - 1, colour: track.colour };
      }),
    };
  }

  uploadCloud(cloud) {
    const gl = this.gl;
    const parts = [{ name: "place", data: cloud.place.bytes, size: 3, type: cloud.place.float ? gl.FLOAT : gl.UNSIGNED_SHORT }];
    if (cloud.turn) parts.push({ name: "turn", data: cloud.turn, size: 4, type: gl.SHORT, unit: true });
    if (cloud.size) parts.push({ name: "size", data: cloud.size, size: 3, type: gl.HALF_FLOAT });
    if (cloud.normal) parts.push({ name: "normal", data: cloud.normal, size: 4, type: gl.BYTE, unit: true });
    if (cloud.colour) parts.push({ name: "colour", data: cloud.colour, size: 4, type: gl.UNSIGNED_BYTE, unit: true });
    for (const part of parts) part.buffer = this.buffer(part.data);
    const corner = { name: "corner", buffer: this.corners, size: 2, type: gl.FLOAT };
    return {
      count: cloud.count,
      start: cloud.place.start,
      step: cloud.place.step,
      knows: (cloud.normal ? 1 : 0) + (cloud.size ? 2 : 0) + (cloud.colour ? 4 : 0),
      asPoints: this.arrays(parts.filter((part) => part.name !== "turn")),
      asEllipsoids: cloud.turn && this.arrays([corner, ...parts.map((part) => ({ ...part, each: 1 }))]),
    };
  }

  scaleTexture() {
    const gl = this.gl, names = ["planarity", "uncertainty", "height"], bytes = new Uint8Array(names.length * 4 * SCALE_STEPS);
    names.forEach((name, row) => bytes.set(scaleBytes(name), row * 4 * SCALE_STEPS));
    return this.texture(gl.RGBA8, SCALE_STEPS, names.length, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
  }

  texture(format, width, height, layout, type, data = null, filter = this.gl.NEAREST) {
    const gl = this.gl, texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, format, width, height, 0, layout, type, data);
    for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, name, filter);
    for (const name of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, name, gl.CLAMP_TO_EDGE);
    return texture;
  }

  target(textures) {
    const gl = this.gl, frame = gl.createFramebuffer();
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
    for (const [place, texture] of textures) gl.framebufferTexture2D(gl.FRAMEBUFFER, place, gl.TEXTURE_2D, texture, 0);
    return frame;
  }

  resize(width, height) {
    if (this.targets && this.targets.width === width && this.targets.height === height) return;
    const gl = this.gl, old = this.targets;
    if (old) {
      for (const texture of [old.colour, old.depth, old.mean]) gl.deleteTexture(texture);
      for (const frame of [old.scene, old.sum]) gl.deleteFramebuffer(frame);
    }
    const colour = this.texture(gl.RGBA8, width, height, gl.RGBA, gl.UNSIGNED_BYTE);
    const depth = this.texture(gl.DEPTH_COMPONENT24, width, height, gl.DEPTH_COMPONENT, gl.UNSIGNED_INT);
    const mean = this.fine
      ? this.texture(gl.RGBA16F, width, height, gl.RGBA, gl.HALF_FLOAT, null, gl.LINEAR)
      : this.texture(gl.RGBA8, width, height, gl.RGBA, gl.UNSIGNED_BYTE, null, gl.LINEAR);
    const scene = this.target([[gl.COLOR_ATTACHMENT0, colour], [gl.DEPTH_ATTACHMENT, depth]]);
    const sum = this.target([[gl.COLOR_ATTACHMENT0, mean]]);
    this.targets = { width, height, colour, depth, mean, scene, sum };
  }

  // --- drawing

  // Picture number `sample` of the mean. `boxes` are the panels' places on the canvas in pixels from its upper left corner.
  draw(view, boxes, state, sample, ratio) {
    const gl = this.gl, canvas = gl.canvas;
    this.resize(Math.max(1, Math.round(canvas.width * ratio)), Math.max(1, Math.round(canvas.height * ratio)));
    const { width, height, scene, sum, colour, depth, mean } = this.targets;
    const shift = [(0.5 + sample * 0.7548776662) % 1 - 0.5, (0.5 + sample * 0.5698402910) % 1 - 0.5];  // spread evenly
    gl.bindFramebuffer(gl.FRAMEBUFFER, scene);
    gl.disable(gl.BLEND);
    gl.enable(gl.DEPTH_TEST);
    gl.enable(gl.SCISSOR_TEST);
    gl.viewport(0, 0, width, height);
    gl.scissor(0, 0, width, height);
    gl.clearColor(0, 0, 0, 1);
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
    gl.bindVertexArray(this.rectangle);
    gl.bindFramebuffer(gl.FRAMEBUFFER, sum);
    if (sample > 0) {
      gl.enable(gl.BLEND);
      gl.blendColor(0, 0, 0, 1 / (sample + 1));
      gl.blendFunc(gl.CONSTANT_ALPHA, gl.ONE_MINUS_CONSTANT_ALPHA);
    }
    this.bind(0, colour);
    this.bind(1, depth);
    const octaves = Math.log2(view.far / view.near), radius = Math.max(1, Math.round(state.pixelRatio * ratio));
    this.use("finish", { uColour: 0, uDepth: 1, uOctaves: octaves, uStrength: 2.2, uRadius: radius });
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    gl.disable(gl.BLEND);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.viewport(0, 0, canvas.width, canvas.height);
    this.bind(1, null);
    this.bind(0, mean);
    this.use("copy", { uColour: 0 });
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    gl.bindVertexArray(null);
  }

  drawPanel(made, panel, view, [w, h], shift, state, ratio) {
    const gl = this.gl, theme = THEMES[state.theme], ranges = this.scene.ranges;
    const focal = view.focal(w / h);
    const common = {
      uTurn: view.turn, uEye: view.eye, uFocal: focal, uNearFar: [view.near, view.far], uJitter: [2 * shift[0] / w, 2 * shift[1] / h],
      uPixel: 2 / (focal[1] * h), uLight: view.light, uPivot: view.distance, uPixels: [w, h],
      uMode: MODES[state.colour], uPlain: rgbOfHex(theme.plain), uUnknown: rgbOfHex(theme.unknown),
      uUncertainty: ranges.uncertainty.map(Math.log), uHeight: ranges.height, uScales: 0,
    };
    gl.depthFunc(gl.ALWAYS);
    gl.bindVertexArray(this.rectangle);
    this.use("backdrop", { uTop: rgbOfHex(theme.top), uBottom: rgbOfHex(theme.bottom) });
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    gl.depthFunc(gl.LESS);
    this.bind(0, this.scales);
    const place = (cloud) => ({ uStart: cloud.start, uStep: cloud.step, uKnows: cloud.knows });
    const sigma = state.sigma * panel.sigmaScale;
    if (state.ellipsoids && sigma > 0 && made.ellipsoids) {
      this.use("ellipsoid", { ...common, ...place(made.ellipsoids), uSigma: sigma });
      gl.bindVertexArray(made.ellipsoids.asEllipsoids);
      gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, made.ellipsoids.count);
    }
    // Points of a field would only sit inside its ellipsoids; they are drawn where there are none, or if nothing else is.
    const clouds = [made.points, made.ellipsoids].filter((cloud) => cloud && state.points);
    for (const cloud of clouds) {
      if (cloud === made.ellipsoids && made.points) continue;
      this.use("point", { ...common, ...place(cloud), uPoint: state.size * state.pixelRatio * ratio });
      gl.bindVertexArray(cloud.asPoints);
      gl.drawArrays(gl.POINTS, 0, cloud.count);
    }
    if (state.tracks) for (const track of made.tracks) this.drawTrack(track, common, state, ratio);
  }

  // Faint where it is hidden, full where it is seen.
  drawTrack(track, common, state, ratio) {
    const gl = this.gl, width = TRACK_WIDTH * state.pixelRatio * ratio;
    gl.bindVertexArray(track.arrays);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    for (const [alpha, test, write] of [[0.3, gl.GREATER, false], [1, gl.LEQUAL, true]]) {
      gl.depthFunc(test);
      gl.depthMask(write);
      this.use("track", { ...common, uColour: [...track.colour, alpha], uWidth: width });
      gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, track.segments);
    }
    gl.depthMask(true);
    gl.disable(gl.BLEND);
  }

  bind(unit, texture) {
    this.gl.activeTexture(this.gl.TEXTURE0 + unit);
    this.gl.bindTexture(this.gl.TEXTURE_2D, texture);
  }
}

const ATTRIBUTES = ["corner", "place", "turn", "size", "normal", "colour", "from", "to"];

class NoWebGL extends Error {}

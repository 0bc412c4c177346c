// --- Thin wrappers around WebGL2: programs, arrays, textures.

// The same locations in every program, so that a vertex array works with any of them.
const ATTRIBUTES = ["place", "turn", "size", "normal", "color", "from", "to", "scalar"];

class NoWebGL extends Error {}

class Gpu {
  constructor(canvas) {
    const options = { alpha: false, antialias: false, depth: false, stencil: false, powerPreference: "high-performance" };
    this.gl = canvas.getContext("webgl2", options);
    if (!this.gl) throw new NoWebGL();
  }

  program(vertex, fragment) {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(program, shader);
    }
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

  // Use a program with these uniform values; unknown names are ignored.
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
        default: gl.uniform1i(uniform.at, value);  // integers and textures
      }
    }
  }

  buffer(data) {
    const gl = this.gl, buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
    return buffer;
  }

  // `rectangles`: the number of rectangles, each of four vertices and two triangles.
  arrays(parts, rectangles = 0) {
    const gl = this.gl, arrays = gl.createVertexArray();
    gl.bindVertexArray(arrays);
    for (const { name, buffer, size, type, unit = false, stride = 0 } of parts) {
      const place = ATTRIBUTES.indexOf(name);
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, size, type, unit, stride, 0);
    }
    if (rectangles) {
      const order = new Uint32Array(6 * rectangles);
      for (let i = 0; i < rectangles; i++) order.set([4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 2, 4 * i + 1, 4 * i + 3], 6 * i);
      arrays.order = gl.createBuffer();
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, arrays.order);
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, order, gl.STATIC_DRAW);
    }
    gl.bindVertexArray(null);
    return arrays;
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

  bind(unit, texture) {
    this.gl.activeTexture(this.gl.TEXTURE0 + unit);
    this.gl.bindTexture(this.gl.TEXTURE_2D, texture);
  }
}

// Repeat each row of `width` bytes `times` times.
function repeatRows(bytes, width, times) {
  const repeated = new Uint8Array(bytes.length * times);
  for (let row = 0, at = 0; row < bytes.length; row += width) {
    for (let i = 0; i < times; i++, at += width) for (let b = 0; b < width; b++) repeated[at + b] = bytes[row + b];
  }
  return repeated;
}

// The rows, `width` bytes each, in an order whose beginning is an even choice of all: first every 64th, then the rest of every 32nd,
// and so on. Views that move draw only the beginning.
function evenRows(bytes, width) {
  const mixed = new Uint8Array(bytes.length), count = bytes.length / width;
  for (let turn = 0, at = 0; turn < 64; turn++) {
    let first = 0;
    for (let bit = 0; bit < 6; bit++) first |= ((turn >> bit) & 1) << (5 - bit);
    for (let row = first; row < count; row += 64) for (let b = 0; b < width; b++) mixed[at++] = bytes[row * width + b];
  }
  return mixed;
}

// The first axis of each rotation, as bytes like those of normals.
function normalsOfTurns(turns) {
  const q = new Int16Array(turns.buffer, turns.byteOffset, turns.length / 2), normals = new Int8Array(q.length);
  for (let i = 0; i < q.length; i += 4) {
    const s = 2 / (q[i] * q[i] + q[i + 1] * q[i + 1] + q[i + 2] * q[i + 2] + q[i + 3] * q[i + 3] || 1);
    normals[i] = Math.round(127 * (1 - s * (q[i + 2] * q[i + 2] + q[i + 3] * q[i + 3])));
    normals[i + 1] = Math.round(127 * s * (q[i + 1] * q[i + 2] + q[i] * q[i + 3]));
    normals[i + 2] = Math.round(127 * s * (q[i + 1] * q[i + 3] - q[i] * q[i + 2]));
  }
  return new Uint8Array(normals.buffer);
}

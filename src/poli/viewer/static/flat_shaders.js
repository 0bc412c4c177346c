// --- Shaders of points, tracks, and full-screen passes.

const POINT_VERTEX = COMMON + COLORING + `
uniform float uPoint;    // pixels, at the distance uPivot
uniform float uPivot;
uniform float uYield;    // depth offset away from the eye: points do not show through their ellipsoids
flat out vec3 vColor;
void main() {
  vec3 world = place;
  vec3 c = uTurn * (world - uEye);
  gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
  gl_PointSize = 1.0;
  if (-c.z < uNear || isClipped(world)) return;
  gl_Position = vec4(uFocal * c.xy / -c.z + uJitter, 2.0 * uNear / (-c.z * uYield) - 1.0, 1.0);
  gl_PointSize = max(uPoint * clamp(sqrt(uPivot / -c.z), 0.5, 2.0), 1.0);
  vColor = colorHere(world);
}
`;

const POINT_FRAGMENT = COMMON + `
flat in vec3 vColor;
out vec4 result;
void main() {
  vec2 off = 2.0 * gl_PointCoord - 1.0;
  if (dot(off, off) > 1.0) discard;
  result = vec4(vColor, 1.0);
}
`;

const TRACK_VERTEX = COMMON + `
uniform vec2 uPixels;    // size of the panel
uniform float uWidth;    // pixels
uniform float uNearer;   // depth offset toward the eye: tracks lie on the ground, not in it
in vec3 from;
in vec3 to;
out vec2 vAt;
flat out vec2 vFrom, vTo;
void main() {
  vec2 corner = CORNER;
  vec3 a = uTurn * (from - uEye), b = uTurn * (to - uEye);
  gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
  if (-a.z < uNear && -b.z < uNear) return;
  if (-a.z < uNear) a = mix(a, b, (uNear + a.z) / (a.z - b.z));
  if (-b.z < uNear) b = mix(b, a, (uNear + b.z) / (b.z - a.z));
  vFrom = 0.5 * uPixels * uFocal * a.xy / -a.z;
  vTo = 0.5 * uPixels * uFocal * b.xy / -b.z;
  vec2 along = vTo - vFrom;
  along = dot(along, along) > 1e-9 ? normalize(along) : vec2(1.0, 0.0);
  vec2 across = vec2(-along.y, along.x);
  float reach = 0.5 * uWidth + 1.0;
  vAt = (corner.x < 0.0 ? vFrom : vTo) + reach * (corner.x * along + corner.y * across);
  float depth = uNearer * uNear / -(corner.x < 0.0 ? a.z : b.z);
  gl_Position = vec4(vAt / (0.5 * uPixels) + uJitter, 2.0 * min(depth, 1.0) - 1.0, 1.0);
}
`;

const TRACK_FRAGMENT = COMMON + `
uniform vec4 uColor;
uniform float uWidth;
in vec2 vAt;
flat in vec2 vFrom, vTo;
out vec4 result;
void main() {
  vec2 along = vTo - vFrom, off = vAt - vFrom;
  float share = clamp(dot(off, along) / max(dot(along, along), 1e-9), 0.0, 1.0);
  if (length(off - share * along) > 0.5 * uWidth) discard;
  result = uColor;
}
`;

const RECTANGLE_VERTEX = `#version 300 es
out vec2 vAt;
void main() {
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2.0 - 1.0;
  vAt = 0.5 + 0.5 * corner;
  gl_Position = vec4(corner, 0.0, 1.0);
}
`;

const BACKDROP_FRAGMENT = `#version 300 es
precision highp float;
uniform vec3 uTop, uBottom;
in vec2 vAt;
out vec4 result;
void main() { result = vec4(mix(uBottom, uTop, vAt.y), 1.0); }
`;

// Eye-dome lighting: darkens pixels behind their neighbors on the screen, which brings out edges and gaps of a cloud.
const FINISH_FRAGMENT = `#version 300 es
precision highp float;
uniform sampler2D uColor;
uniform sampler2D uDepth;
uniform float uStrength;
uniform int uRadius;
in vec2 vAt;
out vec4 result;
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy), last = textureSize(uDepth, 0) - 1;
  vec3 color = texelFetch(uColor, at, 0).rgb;
  float depth = texelFetch(uDepth, at, 0).r;
  if (depth > 0.0) {
    float hidden = 0.0;
    for (int i = 0; i < 4; i++) {
      ivec2 step = (i < 2 ? ivec2(1, 0) : ivec2(0, 1)) * (2 * (i & 1) - 1) * uRadius;
      float beside = texelFetch(uDepth, clamp(at + step, ivec2(0), last), 0).r;
      hidden += clamp(beside / depth - 1.0, 0.0, 0.08);
    }
    color *= exp2(-uStrength * hidden);
  }
  result = vec4(color, 1.0);
}
`;

const COPY_FRAGMENT = `#version 300 es
precision highp float;
uniform sampler2D uColor;
in vec2 vAt;
out vec4 result;
void main() { result = vec4(texture(uColor, vAt).rgb, 1.0); }
`;

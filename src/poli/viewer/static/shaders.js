// --- Shaders of ellipsoids.
//
// An ellipsoid is drawn as a rectangle around its outline; each pixel intersects its ray with the ellipsoid. The outline is smooth
// at any distance, and four corners replace hundreds of triangles, which matters for software rendering.
// Depth is near / distance as a float: 1 at the near plane, 0 at infinity, with even precision.

const MODES = { normal: 0, planarity: 1, uncertainty: 2, height: 3, own: 4, field: 5, layer: 6 };
const SCALE_ROWS = ["planarity", "uncertainty", "height", "field"];  // of the texture of scales

const COMMON = `#version 300 es
precision highp float;
precision highp int;
uniform mat3 uTurn;      // world to view: right, up, backwards
uniform vec3 uEye;
uniform vec2 uFocal;     // in normalized device coordinates
uniform float uNear;
uniform vec2 uJitter;    // subpixel shift: averaging several pictures antialiases edges
uniform float uPixel;    // width of a pixel at a distance of one
#define CORNER vec2(gl_VertexID & 1, (gl_VertexID >> 1) & 1) * 2.0 - 1.0
`;

// Colors of ellipsoids and points, per vertex.
const COLORING = `
uniform int uMode;
uniform int uKnows;      // available attributes, bits: 1 normals, 2 sizes, 4 own colors, 8 the chosen field
uniform vec3 uPlain;
uniform vec3 uUnknown;
uniform vec2 uUncertainty;  // logarithms
uniform vec2 uHeight;
uniform vec2 uField;     // share of the scale = x + y * scalar
uniform vec3 uLayer;     // color of the layer
uniform vec3 uClipLow, uClipHigh;
uniform sampler2D uScales;  // a row for each of SCALE_ROWS
in vec3 place;
in vec3 size;
in vec4 normal;
in vec4 color;
in float scalar;

bool isClipped(vec3 world) { return any(lessThan(world, uClipLow)) || any(greaterThan(world, uClipHigh)); }

vec3 encodeGamma(vec3 c) {
  c = clamp(c, 0.0, 1.0);
  return mix(12.92 * c, 1.055 * pow(c, vec3(1.0 / 2.4)) - 0.055, step(0.0031308, c));
}

vec3 colorOfNormal(vec3 n) {
  float L = ${NORMAL.middle} + ${NORMAL.span} * n.z, a = ${HUE[0]} * n.x - ${HUE[1]} * n.y, b = ${HUE[1]} * n.x + ${HUE[0]} * n.y;
  vec3 lms = vec3(L + 0.3963377774 * a + 0.2158037573 * b, L - 0.1055613458 * a - 0.0638541728 * b,
                  L - 0.0894841775 * a - 1.2914855480 * b);
  lms = lms * lms * lms;
  return encodeGamma(vec3(dot(lms, vec3(4.0767416621, -3.3077115913, 0.2309699292)),
                          dot(lms, vec3(-1.2684380046, 2.6097574011, -0.3413193965)),
                          dot(lms, vec3(-0.0041960863, -0.7034186147, 1.7076147010))));
}

vec3 onScale(int row, float share) {
  return texelFetch(uScales, ivec2(int(clamp(share, 0.0, 1.0) * ${SCALE_STEPS - 1}.0 + 0.5), row), 0).rgb;
}

vec3 colorHere(vec3 world) {
  if (uMode == 0) {
    if ((uKnows & 1) == 0) return uPlain;
    float length2 = dot(normal.xyz, normal.xyz);
    return length2 < 0.1 ? uUnknown : colorOfNormal(normal.xyz * inversesqrt(length2));
  }
  if (uMode == 1 && (uKnows & 2) != 0) {
    vec3 l = size * size;
    return onScale(0, l.z > 0.0 ? (l.y - l.x) / l.z : 0.0);
  }
  if (uMode == 2 && (uKnows & 2) != 0)
    return onScale(1, (log(max(size.x, 1e-7)) - uUncertainty.x) / (uUncertainty.y - uUncertainty.x));
  if (uMode == 3) return onScale(2, (world.z - uHeight.x) / (uHeight.y - uHeight.x));
  if (uMode == 4 && (uKnows & 4) != 0) return color.rgb;
  if (uMode == 5 && (uKnows & 8) != 0) return scalar > 65534.5 ? uUnknown : onScale(3, uField.x + uField.y * scalar);
  if (uMode == 6) return uLayer;
  return uPlain;
}
`;

// Rays from the eye touch an ellipsoid along an ellipse. In coordinates where the ellipsoid is the unit sphere and the eye is at
// distance D, this is a circle of radius sqrt(1 - 1/D^2) in the plane 1/D in front of the center; the rectangle drawn is the square
// around it. A pixel at (u, v) of that square, w^2 = 1 - u^2 - v^2, sees the point ((u, v) radius, 1/D + w) / (1 + w/D) of the
// sphere. Exact at any distance.
const ELLIPSOID_VERTEX = COMMON + COLORING + `
uniform float uSigma;
in vec4 turn;            // quaternion w, x, y, z
flat out vec3 vColor;
flat out vec3 vNormalX, vNormalY, vNormalZ;  // maps a point of the sphere to the surface normal in view coordinates
flat out vec4 vDepth;    // distance of the center, and the contribution of a point of the sphere
flat out vec2 vCircle;   // 1/D and the radius
out vec2 vAt;

mat3 rotation(vec4 q) {
  q = normalize(q);
  vec3 a = q.yzw * q.y, b = q.yzw * q.z, c = q.yzw * q.w, w = q.x * q.yzw;
  return mat3(1.0 - 2.0 * (b.y + c.z), 2.0 * (a.y + w.z), 2.0 * (a.z - w.y),
              2.0 * (a.y - w.z), 1.0 - 2.0 * (a.x + c.z), 2.0 * (b.z + w.x),
              2.0 * (a.z + w.y), 2.0 * (b.z - w.x), 1.0 - 2.0 * (a.x + b.y));
}

void main() {
  vec3 world = place;
  vec3 c = uTurn * (world - uEye);
  float pixel = uPixel * max(-c.z, 0.0);
  vec3 s = max(uSigma * size, max(0.001 * uSigma * size.z, 0.5 * pixel));  // at least a pixel thick
  mat3 R = uTurn * rotation(turn);
  vec3 eye = (-c * R) / s;
  float D = length(eye);
  gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
  if (D <= 1.0 || -c.z < uNear || isClipped(world)) return;  // contains the eye, or is behind it
  vec3 e3 = eye / D;
  float sign = e3.z < 0.0 ? -1.0 : 1.0, h = -1.0 / (sign + e3.z), k = e3.x * e3.y * h;
  vec3 e1 = vec3(1.0 + sign * e3.x * e3.x * h, sign * k, -sign * e3.x), e2 = vec3(k, sign + e3.y * e3.y * h, -e3.y);
  vCircle = vec2(1.0 / D, sqrt(1.0 - 1.0 / (D * D)));
  vec2 corner = CORNER;
  vAt = corner;
  vec3 at = c + R * (s * (vCircle.x * e3 + vCircle.y * (corner.x * e1 + corner.y * e2)));
  gl_Position = vec4(uFocal * at.xy - uJitter * at.z, 0.0, -at.z);
  vec3 forward = -vec3(R[0].z, R[1].z, R[2].z) * s;
  vDepth = vec4(-c.z, dot(forward, e1), dot(forward, e2), dot(forward, e3)) / uNear;
  vec3 thin = min(s.x, min(s.y, s.z)) / s;
  vNormalX = R * (thin * e1);
  vNormalY = R * (thin * e2);
  vNormalZ = R * (thin * e3);
  vColor = colorHere(world);
}
`;

const ELLIPSOID_FRAGMENT = COMMON + `
uniform vec3 uLight;     // direction to the light, in view coordinates
flat in vec3 vColor;
flat in vec3 vNormalX, vNormalY, vNormalZ;
flat in vec4 vDepth;
flat in vec2 vCircle;
in vec2 vAt;
out vec4 result;
void main() {
  float inside = 1.0 - dot(vAt, vAt);
  if (inside < 0.0) discard;
  float w = sqrt(inside);
  vec3 hit = vec3(vAt * vCircle.y, vCircle.x + w) / (1.0 + w * vCircle.x);
  vec3 n = normalize(vNormalX * hit.x + vNormalY * hit.y + vNormalZ * hit.z);
  float edge = 1.0 - n.z;
  result = vec4(vColor * (0.72 + 0.30 * max(dot(n, uLight), 0.0) - 0.12 * edge * edge), 1.0);
  gl_FragDepth = 1.0 / (vDepth.x + dot(vDepth.yzw, hit));
}
`;

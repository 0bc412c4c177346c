// --- What runs on the graphics card.
//
// An ellipsoid is a rectangle just around its outline, and every pixel of it asks where its ray meets the ellipsoid: exact at any
// distance, and four corners each instead of a sphere's hundreds of triangles, which matters where a CPU does the drawing.
// Depth is logarithmic, written by every fragment: as fine near the eye as far away.

const MODES = { normal: 0, planarity: 1, uncertainty: 2, height: 3, own: 4 };

const COMMON = `#version 300 es
precision highp float;
precision highp int;
uniform mat3 uTurn;      // world to view: right, up, backwards
uniform vec3 uEye;
uniform vec2 uFocal;     // of normalised coordinates
uniform vec2 uNearFar;
uniform vec2 uJitter;    // less than a pixel: the mean of several such pictures has smooth edges
uniform float uPixel;    // width of a pixel at a distance of one
float logDepth(float z) { return log2(z / uNearFar.x) / log2(uNearFar.y / uNearFar.x); }
`;

// Colours of ellipsoids and points, by vertex.
const COLOURING = `
uniform vec3 uStart;     // a place is uStart + uStep * place
uniform vec3 uStep;
uniform int uMode;
uniform int uKnows;      // bits: 1 normals, 2 sizes, 4 own colours
uniform vec3 uPlain;
uniform vec3 uUnknown;
uniform vec2 uUncertainty;  // logarithms
uniform vec2 uHeight;
uniform sampler2D uScales;  // a row for each of planarity, uncertainty, height
in vec3 place;
in vec3 size;
in vec4 normal;
in vec4 colour;

vec3 encodeGamma(vec3 c) {
  c = clamp(c, 0.0, 1.0);
  return mix(12.92 * c, 1.055 * pow(c, vec3(1.0 / 2.4)) - 0.055, step(0.0031308, c));
}

vec3 colourOfNormal(vec3 n) {
  float L = ${NORMAL.middle} + ${NORMAL.span} * n.z, a = ${NORMAL.chroma} * n.x, b = ${NORMAL.chroma} * n.y;
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

vec3 colourHere(vec3 world) {
  if (uMode == 0) {
    if ((uKnows & 1) == 0) return uPlain;
    float length2 = dot(normal.xyz, normal.xyz);
    return length2 < 0.1 ? uUnknown : colourOfNormal(normal.xyz * inversesqrt(length2));
  }
  if (uMode == 1 && (uKnows & 2) != 0) {
    vec3 l = size * size;
    return onScale(0, l.z > 0.0 ? (l.y - l.x) / l.z : 0.0);
  }
  if (uMode == 2 && (uKnows & 2) != 0)
    return onScale(1, (log(max(size.x, 1e-7)) - uUncertainty.x) / (uUncertainty.y - uUncertainty.x));
  if (uMode == 3) return onScale(2, (world.z - uHeight.x) / (uHeight.y - uHeight.x));
  if (uMode == 4 && (uKnows & 4) != 0) return colour.rgb;
  return uPlain;
}
`;

const ELLIPSOID_VERTEX = COMMON + COLOURING + `
uniform float uSigma;
in vec2 corner;
in vec4 turn;            // quaternion w, x, y, z
flat out vec3 vColour;
flat out vec3 vNormalX, vNormalY, vNormalZ;  // from the unit sphere to the direction of the surface, in view
flat out float vDistance;
out vec3 vBegin, vRay;   // of the ray, where the ellipsoid is the unit sphere

mat3 rotation(vec4 q) {
  q = normalize(q);
  vec3 a = q.yzw * q.y, b = q.yzw * q.z, c = q.yzw * q.w, w = q.x * q.yzw;
  return mat3(1.0 - 2.0 * (b.y + c.z), 2.0 * (a.y + w.z), 2.0 * (a.z - w.y),
              2.0 * (a.y - w.z), 1.0 - 2.0 * (a.x + c.z), 2.0 * (b.z + w.x),
              2.0 * (a.z + w.y), 2.0 * (b.z - w.x), 1.0 - 2.0 * (a.x + b.y));
}

void main() {
  vec3 world = uStart + uStep * place;
  vec3 c = uTurn * (world - uEye);
  float distance = -c.z;
  vec3 s = max(uSigma * size, max(vec3(0.001 * uSigma * size.z), 0.5 * uPixel * distance));
  mat3 R = uTurn * rotation(turn);
  mat3 M = mat3(R[0] * s.x, R[1] * s.y, R[2] * s.z);
  // The outline's box, from the lines through the eye that touch the ellipsoid. M M' and c are combined so that nothing cancels.
  mat3 A = M * transpose(M);
  float behind = A[2][2] - c.z * c.z;
  gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
  if (behind >= 0.0 || distance < uNearFar.x) return;  // at the eye, or behind it
  vec2 under = vec2(A[0][2] * A[0][2] - A[0][0] * A[2][2] + A[0][0] * c.z * c.z + A[2][2] * c.x * c.x - 2.0 * A[0][2] * c.x * c.z,
                    A[1][2] * A[1][2] - A[1][1] * A[2][2] + A[1][1] * c.z * c.z + A[2][2] * c.y * c.y - 2.0 * A[1][2] * c.y * c.z);
  vec2 middle = -uFocal * (vec2(A[0][2], A[1][2]) - c.xy * c.z) / behind;
  vec2 reach = uFocal * sqrt(max(under, 0.0)) / -behind;
  vec2 at = middle + corner * reach;
  gl_Position = vec4(at + uJitter, 0.0, 1.0);
  vec3 ray = vec3(at / uFocal, -1.0);
  vec3 begin = vec3(ray.xy * distance - c.xy, 0.0);  // on the plane through the centre: small numbers, exact
  vBegin = (begin * R) / s;
  vRay = (ray * R) / s;
  vDistance = distance;
  vNormalX = R[0] / s.x;
  vNormalY = R[1] / s.y;
  vNormalZ = R[2] / s.z;
  vColour = colourHere(world);
}
`;

const ELLIPSOID_FRAGMENT = COMMON + `
uniform vec3 uLight;     // in view, towards the light
flat in vec3 vColour;
flat in vec3 vNormalX, vNormalY, vNormalZ;
flat in float vDistance;
in vec3 vBegin, vRay;
out vec4 result;
void main() {
  float rr = dot(vRay, vRay);
  float middle = -dot(vBegin, vRay) / rr;
  vec3 nearest = vBegin + middle * vRay;
  float inside = 1.0 - dot(nearest, nearest);
  if (inside < 0.0) discard;
  float t = middle - sqrt(inside / rr);
  float z = vDistance + t;
  if (z < uNearFar.x) discard;
  vec3 hit = vBegin + t * vRay;
  vec3 n = normalize(vNormalX * hit.x + vNormalY * hit.y + vNormalZ * hit.z);
  float shade = 0.70 + 0.34 * max(dot(n, uLight), 0.0) - 0.16 * (1.0 - n.z) * (1.0 - n.z);
  result = vec4(vColour * shade, 1.0);
  gl_FragDepth = logDepth(z);
}
`;

const POINT_VERTEX = COMMON + COLOURING + `
uniform float uPoint;    // pixels, at the distance uPivot
uniform float uPivot;
flat out vec3 vColour;
flat out float vDepth;
void main() {
  vec3 world = uStart + uStep * place;
  vec3 c = uTurn * (world - uEye);
  gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
  gl_PointSize = 1.0;
  if (-c.z < uNearFar.x) return;
  gl_Position = vec4(uFocal * c.xy / -c.z + uJitter, 0.0, 1.0);
  gl_PointSize = max(uPoint * clamp(sqrt(uPivot / -c.z), 0.5, 2.0), 1.0);
  vColour = colourHere(world);
  vDepth = logDepth(-c.z);
}
`;

const POINT_FRAGMENT = COMMON + `
flat in vec3 vColour;
flat in float vDepth;
out vec4 result;
void main() {
  vec2 off = 2.0 * gl_PointCoord - 1.0;
  if (dot(off, off) > 1.0) discard;
  result = vec4(vColour, 1.0);
  gl_FragDepth = vDepth;
}
`;

const TRACK_VERTEX = COMMON + `
uniform vec2 uPixels;    // of the panel
uniform float uWidth;    // pixels
in vec2 corner;
in vec3 from;
in vec3 to;
out vec2 vAt;
flat out vec2 vFrom, vTo;
out float vInverse;      // of the distance: what is linear on the screen
void main() {
  vec3 a = uTurn * (from - uEye), b = uTurn * (to - uEye);
  gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
  float near = uNearFar.x;
  if (-a.z < near && -b.z < near) return;
  if (-a.z < near) a = mix(a, b, (near + a.z) / (a.z - b.z));
  if (-b.z < near) b = mix(b, a, (near + b.z) / (b.z - a.z));
  vFrom = 0.5 * uPixels * uFocal * a.xy / -a.z;
  vTo = 0.5 * uPixels * uFocal * b.xy / -b.z;
  vec2 along = vTo - vFrom;
  along = dot(along, along) > 1e-9 ? normalize(along) : vec2(1.0, 0.0);
  vec2 across = vec2(-along.y, along.x);
  float reach = 0.5 * uWidth + 1.0;
  vAt = (corner.x < 0.0 ? vFrom : vTo) + reach * (corner.x * along + corner.y * across);
  vInverse = corner.x < 0.0 ? -1.0 / a.z : -1.0 / b.z;
  gl_Position = vec4(vAt / (0.5 * uPixels) + uJitter, 0.0, 1.0);
}
`;

const TRACK_FRAGMENT = COMMON + `
uniform vec4 uColour;
uniform float uWidth;
in vec2 vAt;
flat in vec2 vFrom, vTo;
in float vInverse;
out vec4 result;
void main() {
  vec2 along = vTo - vFrom, off = vAt - vFrom;
  float share = clamp(dot(off, along) / max(dot(along, along), 1e-9), 0.0, 1.0);
  if (length(off - share * along) > 0.5 * uWidth) discard;
  result = uColour;
  gl_FragDepth = logDepth(0.998 / vInverse);  // a little nearer, so that it lies on the ground, not in it
}
`;

const RECTANGLE_VERTEX = `#version 300 es
in vec2 corner;
out vec2 vAt;
void main() { vAt = 0.5 + 0.5 * corner; gl_Position = vec4(corner, 0.0, 1.0); }
`;

const BACKDROP_FRAGMENT = `#version 300 es
precision highp float;
uniform vec3 uTop, uBottom;
in vec2 vAt;
out vec4 result;
void main() { result = vec4(mix(uBottom, uTop, vAt.y), 1.0); gl_FragDepth = 1.0; }
`;

// Darkens what lies behind its neighbours on the screen (eye-dome lighting): edges and gaps of a cloud become readable.
const FINISH_FRAGMENT = `#version 300 es
precision highp float;
uniform sampler2D uColour;
uniform sampler2D uDepth;
uniform float uOctaves;  // that depths of 0 to 1 span
uniform float uStrength;
uniform int uRadius;
in vec2 vAt;
out vec4 result;
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy), last = textureSize(uDepth, 0) - 1;
  vec3 colour = texelFetch(uColour, at, 0).rgb;
  float depth = texelFetch(uDepth, at, 0).r;
  if (depth < 1.0 && uStrength > 0.0) {
    float hidden = 0.0;
    for (int i = 0; i < 4; i++) {
      ivec2 step = (i < 2 ? ivec2(1, 0) : ivec2(0, 1)) * (2 * (i & 1) - 1) * uRadius;
      hidden += clamp((depth - texelFetch(uDepth, clamp(at + step, ivec2(0), last), 0).r) * uOctaves, 0.0, 0.12);
    }
    colour *= exp2(-uStrength * hidden);
  }
  result = vec4(colour, 1.0);
}
`;

const COPY_FRAGMENT = `#version 300 es
precision highp float;
uniform sampler2D uColour;
in vec2 vAt;
out vec4 result;
void main() { result = vec4(texture(uColour, vAt).rgb, 1.0); }
`;

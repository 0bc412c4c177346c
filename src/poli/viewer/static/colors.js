// --- Colors. All are defined in OKLab, where equal distances look equal, with medium lightness, to be visible on both
// backgrounds.

// A normal (x, y, z) maps to the lightness middle + span z, and to the chroma offset (x, y) from gray, rotated so that walls along
// the axes are orange, green, blue and pink. Up is pale gray, down is dark gray, and the hue of a wall is its direction. There is
// no seam, and equal angles look equally different.
const NORMAL = { middle: 0.69, span: 0.085, chroma: 0.115, turn: (55 / 180) * Math.PI };
const HUE = [NORMAL.chroma * Math.cos(NORMAL.turn), NORMAL.chroma * Math.sin(NORMAL.turn)];

// From 0 to 1, each an sRGB color.
const SCALES = {
  planarity: ["#c4524a", "#dd9a5b", "#d9cf94", "#7fb8a4", "#3c8f9c"],
  uncertainty: ["#4a9aa5", "#8fc0a9", "#e0cf92", "#de9158", "#bf4f55"],
  height: ["#5877b8", "#57a4ae", "#9cc08b", "#e0be74", "#d77d63"],
  field: ["#5a55b4", "#9a57b0", "#cf5f8d", "#e68a5f", "#e8c766"],
};
const SCALE_STEPS = 256;

// Tracks: colorblind-safe palette (Okabe and Ito).
const TRACKS = ["#e69f00", "#56b4e9", "#009e73", "#cc79a7"];

// Layers: blue and orange of the same palette, which differ for everyone.
const LAYERS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7"];

const THEMES = {
  dark: { page: "#0a0c10", top: "#171b22", bottom: "#0f1217", plain: "#b9c0c8", unknown: "#6c7480" },
  light: { page: "#e4e3de", top: "#ffffff", bottom: "#f1f0ec", plain: "#4a525c", unknown: "#a7adb4" },
};

const rgbOfHex = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
const hexOfRgb = (rgb) => "#" + rgb.map((c) => Math.round(255 * clamp(c, 0, 1)).toString(16).padStart(2, "0")).join("");

const decodeGamma = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const encodeGamma = (c) => (c <= 0.0031308 ? 12.92 * Math.max(c, 0) : 1.055 * c ** (1 / 2.4) - 0.055);

function oklabOfRgb(rgb) {
  const [r, g, b] = rgb.map(decodeGamma);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function rgbOfOklab([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((c) => clamp(encodeGamma(c), 0, 1));
}

const rgbOfNormal = ([x, y, z]) => rgbOfOklab([NORMAL.middle + NORMAL.span * z, HUE[0] * x - HUE[1] * y, HUE[1] * x + HUE[0] * y]);

// The color of a scale at a value between 0 and 1.
function rgbOfScale(name, share) {
  const stops = SCALES[name].map((hex) => oklabOfRgb(rgbOfHex(hex)));
  const at = clamp(share, 0, 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const mixed = stops[low].map((value, i) => value + (at - low) * (stops[low + 1][i] - value));
  return rgbOfOklab(mixed);
}

// A row of SCALE_STEPS colors for a scale, as bytes for a texture.
function scaleBytes(name) {
  const bytes = new Uint8Array(4 * SCALE_STEPS);
  for (let i = 0; i < SCALE_STEPS; i++) {
    const rgb = rgbOfScale(name, i / (SCALE_STEPS - 1));
    bytes.set([...rgb.map((c) => Math.round(255 * c)), 255], 4 * i);
  }
  return bytes;
}

// --- Vectors of three numbers.

const add = (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
const subtract = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const times = (s, a) => [s * a[0], s * a[1], s * a[2]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const norm = (a) => Math.hypot(a[0], a[1], a[2]);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// --- Layout of the panels: the grid that wastes the least on empty cells and on panels that are too wide or too narrow. Keep the
// constants in sync with picture.py.

const GAP = 8;  // CSS pixels
const WIDEST = 2.2, NARROWEST = 0.75;  // width / height: a panel does not use space beyond these

function gridOf(count, width, height) {
  let best = null;
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns);
    const w = Math.floor((width - GAP * (columns - 1)) / columns), h = Math.floor((height - GAP * (rows - 1)) / rows);
    const useful = Math.min(w, WIDEST * h) * Math.min(h, w / NARROWEST);
    if (!best || useful > best.useful) best = { columns, rows, w, h, useful };
  }
  return best;
}

// Boxes { panel, x, y, width, height } in CSS pixels; a single box if `only` is the index of a panel.
function boxesOf(count, only, width, height) {
  if (only !== null) return [{ panel: only, x: 0, y: 0, width, height }];
  const { columns, w, h } = gridOf(count, width, height);
  return Array.from({ length: count }, (_, i) => ({
    panel: i, x: (i % columns) * (w + GAP), y: Math.floor(i / columns) * (h + GAP), width: w, height: h,
  }));
}

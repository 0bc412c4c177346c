// --- Layout of the panels: the grid that wastes the least on empty cells and on panels that are too wide or too narrow. Keep the
// constants in sync with framing.py.

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

// --- Where the panels are: the grid that wastes least, be it places without a panel, or panels too wide or too narrow. grid.py has
// the same numbers.

const GAP = 8;  // pixels of the page
const WIDEST = 2.2, NARROWEST = 0.75;  // width to height: what a panel has beyond is of no use to it

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

// Boxes { panel, x, y, width, height } in pixels of the page; only one of them if `only` is the number of a panel.
function boxesOf(count, only, width, height) {
  if (only !== null) return [{ panel: only, x: 0, y: 0, width, height }];
  const { columns, w, h } = gridOf(count, width, height);
  return Array.from({ length: count }, (_, i) => ({
    panel: i, x: (i % columns) * (w + GAP), y: Math.floor(i / columns) * (h + GAP), width: w, height: h,
  }));
}

// --- Where the panels are: a grid in which each is as large as it can be.

const GAP = 8;  // pixels of the page
const BEST_ASPECT = 1.6;

function gridOf(count, width, height) {
  let best = null;
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns);
    const w = Math.floor((width - GAP * (columns - 1)) / columns), h = Math.floor((height - GAP * (rows - 1)) / rows);
    const usable = Math.min(w, h * BEST_ASPECT);
    if (!best || usable > best.usable) best = { columns, rows, w, h, usable };
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

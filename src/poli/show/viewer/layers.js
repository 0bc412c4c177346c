// --- Layers: named parts of a panel with a color each, such as two clouds, or the samples that were added to a scan.

// A switch for each layer in a panel's head; the same name in several panels is one layer.
function makeLayerSwitches(panel, head, toggle) {
  const list = make("p", "layers", "", head);
  panel.layers.forEach((layer, i) => {
    const label = make("label", "", "", list), input = make("input", "", "", label);
    input.type = "checkbox";
    input.checked = true;
    input.dataset.layer = layer.name;
    input.addEventListener("change", () => toggle(layer.name, input.checked));
    make("i", "", "", label).style.background = hexOfRgb(layer.color);
    const { points, ellipsoids } = panel.parts[i];
    const count = points ? ` (${number(points.count)} points)` : ellipsoids ? ` (${number(ellipsoids.count)} ellipsoids)` : "";
    make("span", "", layer.name + count, label);
  });
}

function tellLayers(hidden) {
  for (const input of document.querySelectorAll("input[data-layer]")) input.checked = !hidden.has(input.dataset.layer);
}

const layerNames = (scene) => [...new Set(scene.panels.flatMap((panel) => panel.layers.map((layer) => layer.name)))];

// --- Fields of the data as colors: intensity, ring, time and any other number per point.
//
// The state's color is the name of a coloring, or "field:" and the name of a field.

const FIELD = "field:";
const fieldOf = (color) => (color.startsWith(FIELD) ? color.slice(FIELD.length) : null);
const modeOf = (color) => (fieldOf(color) === null ? color : "field");

// The share of the color scale is linear in the codes of the data: [share of code 0, share per code].
function shareOfCodes(field) {
  const span = field.high - field.low;
  return span > 0 ? [(field.start - field.low) / span, field.step / span] : [0.5, 0];
}

const valueOfCode = (field, code) => (code === 65535 ? null : field.start + field.step * code);

// As many digits as the range of the field needs, and its unit.
function fieldText(field, value) {
  if (value === null) return "unknown";
  const span = Math.max(field.high - field.low, Math.abs(value) * 1e-4);
  const decimals = field.whole ? 0 : clamp(Math.ceil(3 - Math.log10(span || 1)), 0, 9);
  const size = Math.abs(value);
  const text = size && !field.whole && (size < 1e-4 || size >= 1e12) ? value.toPrecision(4) : String(+value.toFixed(decimals));
  return field.unit ? `${text} ${field.unit}` : text;
}

// The menu next to the colorings. Returns a function that shows which field is chosen.
function makeFieldMenu(scene, choose) {
  const menu = find("field");
  menu.parentElement.hidden = !scene.fields.length;
  for (const field of scene.fields) make("option", "", field.unit ? `${field.name} (${field.unit})` : field.name, menu).value = field.name;
  menu.addEventListener("change", () => { if (menu.value) choose(FIELD + menu.value); });
  return (color) => {
    menu.value = fieldOf(color) || "";
    menu.parentElement.classList.toggle("chosen", fieldOf(color) !== null);
  };
}

// Lowest and highest value of the scale. Values beyond have the colors of its ends.
function fieldLegend(field) {
  const what = field.unit ? `${field.name} in ${field.unit}` : field.name;
  const constant = !(field.high > field.low);
  return { what, low: constant ? `all ${fieldText(field, field.low)}` : fieldText(field, field.low), high: constant ? "" : fieldText(field, field.high) };
}

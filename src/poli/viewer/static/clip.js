// --- A clipping box: two sliders per axis hide what lies outside, such as the ceiling of a room.

const CLIP_STEPS = 500;
const AXES = ["x", "y", "z"];
const NO_CLIP = { low: [-1e30, -1e30, -1e30], high: [1e30, 1e30, 1e30] };  // finite: shaders compare with it

// `changed` receives { low, high } in page coordinates. A slider at its end clips nothing on that side.
function makeClip(scene, changed) {
  const rows = AXES.map((axis, a) => {
    const row = make("div", "clip-row", "", find("clip-axes"));
    const text = make("div", "clip-text", "", row), ends = {};
    make("span", "", axis, text);
    const output = make("output", "", "", text), box = make("div", "pair", "", row);
    for (const [end, value] of [["low", 0], ["high", CLIP_STEPS]]) {
      const input = make("input", "", "", box);
      Object.assign(input, { type: "range", min: 0, max: CLIP_STEPS, step: 1, value, id: `clip-${axis}-${end}` });
      input.setAttribute("aria-label", `${end === "low" ? "Lowest" : "Highest"} ${axis}`);
      input.addEventListener("input", () => {
        const low = Number(ends.low.value), high = Number(ends.high.value);
        if (low > high) ends[end].value = end === "low" ? high : low;  // the two do not cross
        tell();
      });
      ends[end] = input;
    }
    return { ends, output, box, a };
  });
  const place = (a, step) => scene.limits[a][0] + (step / CLIP_STEPS) * (scene.limits[a][1] - scene.limits[a][0]);
  function read() {
    const clip = { low: [...NO_CLIP.low], high: [...NO_CLIP.high] };
    for (const { ends, a } of rows) {
      if (Number(ends.low.value) > 0) clip.low[a] = place(a, Number(ends.low.value));
      if (Number(ends.high.value) < CLIP_STEPS) clip.high[a] = place(a, Number(ends.high.value));
    }
    return clip;
  }
  function tell() {
    const clip = read();
    for (const { ends, output, box, a } of rows) {
      const base = scene.origin[a], low = Number(ends.low.value), high = Number(ends.high.value);
      const words = [low > 0 ? meters(base + place(a, low)) : "all", high < CLIP_STEPS ? meters(base + place(a, high)) : "all"];
      output.textContent = low > 0 || high < CLIP_STEPS ? `${words[0] === "all" ? "" : `from ${words[0]} `}${words[1] === "all" ? "" : `to ${words[1]}`}` : "all";
      box.style.setProperty("--from", `${(100 * low) / CLIP_STEPS}%`);
      box.style.setProperty("--to", `${(100 * high) / CLIP_STEPS}%`);
    }
    find("clip").classList.toggle("on", isClipping(clip));
    changed(clip);
  }
  function set(low, high) {  // in the data's coordinates; null: no limit
    const step = (a, value) => ((value - scene.origin[a] - scene.limits[a][0]) / (scene.limits[a][1] - scene.limits[a][0] || 1)) * CLIP_STEPS;
    for (const { ends, a } of rows) {
      ends.low.value = low && low[a] !== null ? Math.round(step(a, low[a])) : 0;
      ends.high.value = high && high[a] !== null ? Math.round(step(a, high[a])) : CLIP_STEPS;
    }
    tell();
  }
  find("clip-reset").addEventListener("click", () => set(null, null));
  return { set, tell };
}

const isClipping = (clip) => clip.low.some((value) => value > -1e30) || clip.high.some((value) => value < 1e30);
const isInside = (clip, p) => p.every((value, a) => value >= clip.low[a] && value <= clip.high[a]);
const meters = (value, decimals = 2) => `${value.toFixed(decimals)} m`;

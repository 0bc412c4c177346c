// --- The timeline of a panel with frames: play, step, and show one scan, all of the map, or one over the other.

const RATES = [1, 2, 5, 10, 20];  // scans per second
const USUAL_RATE = 10;

// What a panel shows now; frames without known poses are shown one at a time.
function visibleParts(panel, state) {
  if (panel.frames && state.when === "one") return [panel.frames.parts[state.moment]];
  if (panel.frames && !panel.parts.length) return panel.frames.shareWorld ? panel.frames.dots : [];
  return panel.parts.filter((part) => part.layer === null || !state.hidden.has(panel.layers[part.layer].name));
}

// The points of the current frame, drawn over the map.
function spotParts(panel, state) {
  return panel.frames && state.when === "both" ? [panel.frames.dots[state.moment]] : [];
}

const timelineOf = (scene) => (scene.panels.find((panel) => panel.frames) || { frames: null }).frames;

function momentText(frames, moment) {
  const seconds = frames.seconds[moment];
  return `${frames.names[moment]} · ${moment + 1} of ${frames.count}${seconds === null ? "" : ` · ${seconds.toFixed(2)} s`}`;
}

// `set` changes the state; `moved` shifts the camera along with the sensor. Returns functions for keys and scripts.
function makeTimeline(scene, state, set, moved) {
  const frames = timelineOf(scene);
  find("timeline").hidden = !frames;
  if (!frames) return null;
  let timer = 0, rate = USUAL_RATE;
  const slider = find("moment"), play = find("play"), rates = find("rate");
  slider.max = frames.count - 1;
  find("when").hidden = find("follow").parentElement.hidden = !frames.shareWorld;
  for (const value of RATES) make("option", "", `${value} / s`, rates).value = value;
  rates.value = rate;

  function go(moment) {
    const next = clamp(Math.round(moment), 0, frames.count - 1), from = frames.positions[state.moment], to = frames.positions[next];
    if (state.follow && from && to) moved(subtract(to, from));
    set({ moment: next, when: state.when === "all" ? "one" : state.when });
  }
  function pause() {
    clearInterval(timer);
    timer = 0;
    tell();
    set({});
  }
  function start() {
    if (state.moment >= frames.count - 1) go(0);
    clearInterval(timer);
    timer = setInterval(() => (state.moment < frames.count - 1 ? go(state.moment + 1) : pause()), 1000 / rate);
    go(state.moment);
    tell();
  }
  const toggle = () => (timer ? pause() : start());
  const step = (by) => { if (timer) pause(); go(state.moment + by); };
  function tell() {
    play.setAttribute("aria-label", timer ? "Pause" : "Play");
    play.classList.toggle("playing", Boolean(timer));
    slider.value = state.moment;
    slider.setAttribute("aria-valuetext", momentText(frames, state.moment));
    find("moment-value").textContent = momentText(frames, state.moment);
    find("follow").checked = state.follow;
    for (const input of find("when").querySelectorAll("input")) input.checked = input.value === state.when;
  }

  slider.addEventListener("input", () => { if (timer) pause(); go(Number(slider.value)); });
  play.addEventListener("click", toggle);
  find("step-back").addEventListener("click", () => step(-1));
  find("step-on").addEventListener("click", () => step(1));
  rates.addEventListener("change", () => { rate = Number(rates.value); if (timer) start(); });
  find("follow").addEventListener("change", (event) => set({ follow: event.target.checked }));
  for (const input of find("when").querySelectorAll("input")) input.addEventListener("change", () => set({ when: input.value }));
  return { tell, toggle, step, go, pause, get playing() { return Boolean(timer); } };
}

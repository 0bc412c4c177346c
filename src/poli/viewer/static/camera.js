// --- One camera for all panels. It orbits a pivot, with z up.

const STEEPEST = (89 / 180) * Math.PI;
const TURN = 0.006;  // radians per pixel

class Camera {
  constructor(start, box) {
    this.start = start;
    this.box = box;
    this.reset();
  }

  reset() {
    const { eye, target } = this.start, back = subtract(eye, target);
    this.target = [...target];
    this.distance = norm(back);
    this.yaw = Math.atan2(back[1], back[0]);
    this.pitch = clamp(Math.asin(back[2] / this.distance), -STEEPEST, STEEPEST);
  }

  get axes() {
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    return { right: [-sy, cy, 0], up: [-sp * cy, -sp * sy, cp], back: [cp * cy, cp * sy, sp] };
  }

  turn(dx, dy) {
    this.yaw -= TURN * dx;
    this.pitch = clamp(this.pitch + TURN * dy, -STEEPEST, STEEPEST);
  }

  // At the pivot's distance, the point under the pointer stays under it.
  move(dx, dy, panelWidth, panelHeight) {
    const { right, up } = this.axes, across = (2 * this.distance) / (this.focal(panelWidth / panelHeight)[1] * panelHeight);
    this.target = add(this.target, add(times(-dx * across, right), times(dy * across, up)));
  }

  zoom(factor) {
    this.distance = clamp(this.distance * factor, 1e-4 * this.box.radius, 20 * this.box.radius);
  }

  // A panel shows at least the camera's field of view: its height if the panel is wider than the camera, otherwise its width.
  focal(aspect) {
    const upright = Math.tan(this.start.fieldOfView / 2), across = upright * this.start.aspect;
    return aspect >= this.start.aspect ? [1 / (upright * aspect), 1 / upright] : [1 / across, aspect / across];
  }

  get view() {
    const { right, up, back } = this.axes, eye = add(this.target, times(this.distance, back));
    const light = [0.35, -0.25, 0.9];  // mostly from above, partly from the viewer
    const seen = [dot(right, light) - 0.25, dot(up, light) + 0.15, dot(back, light) + 0.75];
    return {
      eye,
      turn: [right[0], up[0], back[0], right[1], up[1], back[1], right[2], up[2], back[2]],  // column by column
      focal: (aspect) => this.focal(aspect),
      near: 2e-3 * this.distance,
      distance: this.distance,
      light: times(1 / norm(seen), seen),
    };
  }
}

const STEADY = 4;  // CSS pixels: a pointer that moves less clicks

// Mouse, pen and touch input. `changed` is called after every motion, `clicked` with a position in the element; `panelSize` returns
// the size of a panel.
function followPointers(element, camera, panelSize, changed, reset, clicked) {
  const down = new Map();
  let began = null;  // where a click may have begun
  const middle = () => {
    const all = [...down.values()];
    return { x: all.reduce((sum, p) => sum + p.x, 0) / all.length, y: all.reduce((sum, p) => sum + p.y, 0) / all.length };
  };
  const spread = () => {
    const [a, b] = [...down.values()];
    return Math.max(Math.hypot(a.x - b.x, a.y - b.y), 1);
  };
  element.addEventListener("pointerdown", (event) => {
    element.setPointerCapture(event.pointerId);
    down.set(event.pointerId, { x: event.clientX, y: event.clientY, moves: event.button !== 0 || event.shiftKey });
    began = down.size === 1 && event.button === 0 ? { x: event.clientX, y: event.clientY } : null;
    element.classList.add("held");
  });
  element.addEventListener("pointermove", (event) => {
    const pointer = down.get(event.pointerId);
    if (!pointer) return;
    const before = middle(), apart = down.size > 1 ? spread() : 1;
    const moves = pointer.moves || down.size > 1;
    if (began && Math.hypot(event.clientX - began.x, event.clientY - began.y) > STEADY) began = null;
    pointer.x = event.clientX;
    pointer.y = event.clientY;
    const now = middle(), dx = now.x - before.x, dy = now.y - before.y;
    if (moves) camera.move(dx, dy, ...panelSize());
    else camera.turn(dx, dy);
    if (down.size > 1) camera.zoom(apart / spread());
    changed();
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    element.addEventListener(kind, (event) => {
      down.delete(event.pointerId);
      if (began && kind === "pointerup") {
        const box = element.getBoundingClientRect();
        clicked(event.clientX - box.left, event.clientY - box.top);
      }
      began = null;
      if (!down.size) element.classList.remove("held");
    });
  }
  element.addEventListener("contextmenu", (event) => event.preventDefault());
  element.addEventListener("dblclick", reset);
  element.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;  // pixels per line, per page
    camera.zoom(Math.exp(clamp(event.deltaY * lines, -300, 300) * 0.0014));
    changed();
  }, { passive: false });
}

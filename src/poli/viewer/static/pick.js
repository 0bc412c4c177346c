// --- Find the point or ellipsoid under the pointer, on the CPU: exact, and a click happens rarely.

const GRASP = 7;  // CSS pixels: points within this distance of the pointer count

// A panel's box, the camera's axes and focal lengths: everything that maps places to CSS pixels of the stage.
function projectionOf(camera, box) {
  const { right, up, back } = camera.axes, eye = camera.view.eye, focal = camera.focal(box.width / box.height);
  return { right, up, back, eye, near: camera.view.near, scale: [0.5 * focal[0] * box.width, 0.5 * focal[1] * box.height], middle: [box.x + box.width / 2, box.y + box.height / 2] };
}

// CSS pixels { x, y } and the depth of a place; null if it is behind the eye.
function project({ right, up, back, eye, near, scale, middle }, place) {
  const d = subtract(place, eye), depth = -dot(back, d);
  if (depth < near) return null;
  return { x: middle[0] + (scale[0] * dot(right, d)) / depth, y: middle[1] - (scale[1] * dot(up, d)) / depth, depth };
}

function rayAt({ right, up, back, eye, scale, middle }, x, y) {
  const along = add(add(times((x - middle[0]) / scale[0], right), times((middle[1] - y) / scale[1], up)), times(-1, back));
  return { eye, along: times(1 / norm(along), along) };
}

const placeOf = (cloud, i, values = placesOf(cloud)) => [0, 1, 2].map((a) => cloud.place.start[a] + cloud.place.step[a] * values[3 * i + a]);

// The nearest hit { part, cloud, row, place, depth }, or null. Ellipsoids hide the points behind their surface.
function pick(panel, parts, camera, box, state, x, y) {
  const view = projectionOf(camera, box), ray = rayAt(view, x, y), sigma = state.sigma * panel.sigmaScale;
  let best = null;
  for (const part of parts) {
    const solid = state.ellipsoids && sigma > 0 && part.ellipsoids;
    const hit = solid && hitEllipsoids(part.ellipsoids, ray, sigma, view, state.clip);
    if (hit && (!best || hit.depth < best.depth)) best = { part, ...hit };
  }
  let dot2 = null;
  for (const part of parts) {
    const cloud = part.points || part.ellipsoids;
    const hit = state.points && cloud && hitPoints(cloud, view, x, y, state);
    if (hit && (!dot2 || hit.rank < dot2.rank)) dot2 = { part, ...hit };
  }
  return dot2 && (!best || dot2.depth < best.depth) ? dot2 : best;
}

// Points under the pointer come before points beside it, and near points before far ones.
function hitPoints(cloud, view, x, y, state) {
  const values = placesOf(cloud), { start, step } = cloud.place, { right, up, back, eye, near, scale, middle } = view;
  const under = Math.max(0.5 * state.size + 1, 2);
  let best = null;
  for (let i = 0, at = 0; i < cloud.count; i++, at += 3) {
    const px = start[0] + step[0] * values[at], py = start[1] + step[1] * values[at + 1], pz = start[2] + step[2] * values[at + 2];
    const dx = px - eye[0], dy = py - eye[1], dz = pz - eye[2], depth = -(back[0] * dx + back[1] * dy + back[2] * dz);
    if (depth < near) continue;
    const u = middle[0] + (scale[0] * (right[0] * dx + right[1] * dy + right[2] * dz)) / depth - x;
    const v = middle[1] - (scale[1] * (up[0] * dx + up[1] * dy + up[2] * dz)) / depth - y;
    const off = Math.hypot(u, v);
    if (off > GRASP || !isInside(state.clip, [px, py, pz])) continue;
    const rank = off <= under ? depth : depth * 1e6 * (1 + off);
    if (!best || rank < best.rank) best = { cloud, row: i, place: [px, py, pz], depth, rank };
  }
  return best;
}

function hitEllipsoids(cloud, { eye, along }, sigma, view, clip) {
  const values = placesOf(cloud), turns = turnsOf(cloud), sizes = sizesOf(cloud);
  let best = null;
  for (let i = 0; i < cloud.count; i++) {
    const place = placeOf(cloud, i, values), c = subtract(eye, place), reach = sigma * sizes[3 * i + 2], ahead = -dot(c, along);
    if (dot(c, c) - ahead * ahead > reach * reach * 1.01 || ahead < 0 || !isInside(clip, place)) continue;
    const axes = axesOf(turns, i), s = [0, 1, 2].map((a) => sigma * Math.max(sizes[3 * i + a], 1e-3 * sizes[3 * i + 2]));
    const o = axes.map((axis, a) => dot(axis, c) / s[a]), v = axes.map((axis, a) => dot(axis, along) / s[a]);
    const vv = dot(v, v), ov = dot(o, v), inside = ov * ov - vv * (dot(o, o) - 1);
    if (inside < 0) continue;
    const far = (-ov - Math.sqrt(inside)) / vv, depth = -dot(view.back, times(far, along));
    if (far > 0 && (!best || depth < best.depth)) best = { cloud, row: i, place, depth };
  }
  return best;
}

const turnsOf = (cloud) => new Int16Array(cloud.turn.buffer, cloud.turn.byteOffset, 4 * cloud.count);

// The three axes of an ellipsoid, from the thinnest to the longest.
function axesOf(turns, i) {
  const q = turns.subarray(4 * i, 4 * i + 4), l = Math.hypot(...q) || 1, [w, x, y, z] = Array.from(q, (value) => value / l);
  return [
    [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)],
    [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)],
    [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)],
  ];
}

// Standard deviations as numbers. JavaScript has no arrays of half floats everywhere.
function sizesOf(cloud) {
  if (!cloud.sizes) {
    const halves = new Uint16Array(cloud.size.buffer, cloud.size.byteOffset, 3 * cloud.count);
    cloud.sizes = Float32Array.from(halves, (h) => (h & 0x7c00 ? (1 + (h & 0x3ff) / 1024) * 2 ** ((h >> 10) - 15) : (h & 0x3ff) * 2 ** -24));
  }
  return cloud.sizes;
}

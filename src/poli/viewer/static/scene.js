// --- Decode the page's data for the GPU. page_data.py describes the format.
//
// A panel's content is a list of parts { layer, points, ellipsoids }: one for each layer, or a single one. Each frame of a timeline
// is a part of its own.

function bytesOf(text) {
  const packed = atob(text);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  return bytes;
}

function decodeCloud(cloud) {
  if (!cloud) return null;
  const optional = (text) => (text ? bytesOf(text) : null);
  return {
    count: cloud.count,
    total: cloud.total,
    directionsOnly: cloud.directionsOnly,
    place: { start: cloud.place.start, step: cloud.place.step, float: cloud.place.type === "float32", bytes: bytesOf(cloud.place.data) },
    turn: optional(cloud.turn),
    size: optional(cloud.size),
    normal: optional(cloud.normal),
    color: optional(cloud.color),
    scalars: Object.fromEntries(Object.entries(cloud.scalars).map(([name, text]) => [name, bytesOf(text)])),
  };
}

// Rows first to first + count of a cloud, without copying them.
function sliceCloud(cloud, first, count) {
  const cut = (bytes, width) => bytes && bytes.subarray(first * width, (first + count) * width);
  return {
    ...cloud,
    count,
    total: count,
    place: { ...cloud.place, bytes: cut(cloud.place.bytes, cloud.place.float ? 12 : 6) },
    turn: cut(cloud.turn, 8),
    size: cut(cloud.size, 6),
    normal: cut(cloud.normal, 4),
    color: cut(cloud.color, 4),
    scalars: Object.fromEntries(Object.entries(cloud.scalars).map(([name, bytes]) => [name, cut(bytes, 2)])),
  };
}

function partsOf(panel, points, ellipsoids) {
  if (!panel.layers.length) return points || ellipsoids ? [{ layer: null, points, ellipsoids }] : [];
  const at = { points: 0, ellipsoids: 0 };
  return panel.layers.map((layer, i) => {
    const take = (cloud, given, kind) => {
      const count = cloud ? given.layers[i] : 0, first = at[kind];
      at[kind] += count;
      return count ? sliceCloud(cloud, first, count) : null;
    };
    return { layer: i, points: take(points, panel.points, "points"), ellipsoids: take(ellipsoids, panel.ellipsoids, "ellipsoids") };
  });
}

function decodeFrames(frames) {
  if (!frames) return null;
  const parts = frames.parts.map((part) => ({ layer: null, points: decodeCloud(part.points), ellipsoids: decodeCloud(part.ellipsoids) }));
  const dots = parts.map(({ points }) => ({ layer: null, points, ellipsoids: null }));
  return { ...frames, count: parts.length, parts, dots, ellipsoids: parts.some((part) => part.ellipsoids) };
}

function decodeScene(data) {
  const panels = data.panels.map((panel) => {
    const points = decodeCloud(panel.points), ellipsoids = decodeCloud(panel.ellipsoids);
    return {
      ...panel,
      ellipsoids,
      points,
      parts: partsOf(panel, points, ellipsoids),
      frames: decodeFrames(panel.frames),
      layers: panel.layers.map((layer, i) => ({ name: layer.name, color: rgbOfHex(LAYERS[i % LAYERS.length]) })),
      tracks: panel.tracks.map((track, i) => ({
        name: track.name,
        count: track.count,
        color: track.color || rgbOfHex(TRACKS[i % TRACKS.length]),
        place: new Float32Array(bytesOf(track.place).buffer),
      })),
    };
  });
  return { ...data, panels, ...boxOf(panels) };
}

// The positions of a cloud as numbers: place i of axis a is start[a] + step[a] * values[3 i + a].
function placesOf(cloud) {
  const { bytes, float } = cloud.place;
  const Kind = float ? Float32Array : Uint16Array;
  return new Kind(bytes.buffer, bytes.byteOffset, 3 * cloud.count);
}

// Limits of the clipping sliders, which leave out one point in a thousand on either side, and a ball around everything: how far the
// camera has to see.
function boxOf(panels) {
  const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity], some = [[], [], []];
  const grow = (value, axis) => {
    low[axis] = Math.min(low[axis], value);
    high[axis] = Math.max(high[axis], value);
  };
  for (const panel of panels) {
    const parts = [...panel.parts, ...(panel.frames ? panel.frames.parts : [])];
    for (const cloud of parts.flatMap((part) => [part.ellipsoids, part.points])) {
      if (!cloud) continue;
      const { start, step } = cloud.place, values = placesOf(cloud), stride = 3 * Math.ceil(values.length / 60000);
      for (let i = 0; i < values.length; i++) grow(start[i % 3] + step[i % 3] * values[i], i % 3);
      for (let i = 0; i + 2 < values.length; i += stride) for (let a = 0; a < 3; a++) some[a].push(start[a] + step[a] * values[i + a]);
    }
    for (const track of panel.tracks) track.place.forEach((value, i) => grow(value, i % 3));
  }
  if (low[0] > high[0]) return { box: { middle: [0, 0, 0], radius: 1 }, limits: [0, 1, 2].map(() => [-1, 1]) };
  const limits = some.map((values, axis) => {
    if (!values.length) return [low[axis], high[axis]];
    const sorted = Float64Array.from(values).sort(), share = (p) => sorted[Math.round(p * (sorted.length - 1))];
    return [share(0.001), share(0.999)];
  });
  const middle = times(0.5, add(low, high));
  return { box: { middle, radius: Math.max(0.5 * norm(subtract(high, low)), 1e-3) }, limits };
}

// --- Decode the page's data for the GPU. page_data.py describes the format.

function bytesOf(text) {
  const packed = atob(text);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  return bytes;
}

function decodePlaces(place) {
  const bytes = bytesOf(place.data);
  return { start: place.start, step: place.step, float: place.type === "float32", bytes };
}

function decodeCloud(cloud) {
  if (!cloud) return null;
  const optional = (text) => (text ? bytesOf(text) : null);
  return {
    count: cloud.count,
    total: cloud.total,
    directionsOnly: cloud.directionsOnly,
    place: decodePlaces(cloud.place),
    turn: optional(cloud.turn),
    size: optional(cloud.size),
    normal: optional(cloud.normal),
    color: optional(cloud.color),
  };
}

function decodeScene(data) {
  const panels = data.panels.map((panel) => ({
    ...panel,
    ellipsoids: decodeCloud(panel.ellipsoids),
    points: decodeCloud(panel.points),
    tracks: panel.tracks.map((track, i) => ({
      name: track.name,
      count: track.count,
      color: track.color || rgbOfHex(TRACKS[i % TRACKS.length]),
      place: new Float32Array(bytesOf(track.place).buffer),
    })),
  }));
  return { ...data, panels, box: boxOf(panels) };
}

// Center and radius of a ball around everything: how far the camera has to see.
function boxOf(panels) {
  const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
  const grow = (value, axis) => {
    low[axis] = Math.min(low[axis], value);
    high[axis] = Math.max(high[axis], value);
  };
  for (const panel of panels) {
    for (const cloud of [panel.ellipsoids, panel.points]) {
      if (!cloud) continue;
      const { bytes, start, step, float } = cloud.place;
      const values = float ? new Float32Array(bytes.buffer) : new Uint16Array(bytes.buffer);
      for (let i = 0; i < values.length; i++) grow(start[i % 3] + step[i % 3] * values[i], i % 3);
    }
    for (const track of panel.tracks) track.place.forEach((value, i) => grow(value, i % 3));
  }
  if (low[0] > high[0]) return { middle: [0, 0, 0], radius: 1 };
  const middle = times(0.5, add(low, high));
  return { middle, radius: Math.max(0.5 * norm(subtract(high, low)), 1e-3) };
}

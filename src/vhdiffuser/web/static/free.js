// Free-space check, the same as the server's, so that dragging into a wall needs no request.

const distance = ([x0, x1, y0, y1], [x, y]) => Math.hypot(Math.max(x0 - x, x - x1, 0), Math.max(y0 - y, y - y1, 0));

// Why a point cannot be a start or goal; empty if it can.
export function blocked(name, place, scene, walls, boxes) {
  const spoken = `The ${name} (${place.map((value) => value.toFixed(2)).join(", ")})`;
  if (walls.length) {
    const near = Math.min(...walls.map((wall) => distance(wall, place)));
    if (near === 0) return `${spoken} is inside a wall.`;
    if (near < scene.clearance) return `${spoken} is closer to a wall than the body\u2019s radius of ${scene.radius}.`;
  }
  const inside = boxes.some(([low, high]) => place.every((value, dim) => low[dim] < value && value < high[dim]));
  return inside ? `${spoken} lies in a box to avoid. Move it or the box.` : "";
}

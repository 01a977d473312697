// The distance field as a picture, and its contour lines by marching squares.

const NICE = [1, 2, 5, 10, 20, 25, 50, 100, 200];

// The smallest of ..., 0.5, 1, 2, 5, 10, ... that is at least `least`.
export function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.999);
}

export function contourStep(most) {
  return NICE.find((step) => most / step <= 9) ?? 500;
}

function channels(colour) {
  const value = parseInt(colour.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

// 256 colours interpolated through these, as [red, green, blue].
export function ramp(...through) {
  const stops = through.map(channels);
  return Array.from({ length: 256 }, (_, number) => {
    const at = (number / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((value, channel) => Math.round(value + (stops[low + 1][channel] - value) * (at - low)));
  });
}

// From the goal outwards.
export const fieldRamp = (colours) => ramp(colours.fieldNear, colours.fieldMiddle, colours.fieldFar);

// From the best candidate to the worst.
export const fanRamp = (colours) => ramp(colours.fanGood, colours.fanMiddle, colours.fanBad);

export function drawRamp(canvas, table) {
  const context = canvas.getContext("2d");
  table.forEach((colour, number) => {
    context.fillStyle = `rgb(${colour.join(" ")})`;
    context.fillRect((number * canvas.width) / 256, 0, 1, canvas.height);
  });
}

// Steps at a point (right, up) of a view, or -1 where undefined.
export function stepsAt(field, right, up) {
  const at = (value, [low, high], count) => Math.round(((value - low) / (high - low)) * (count - 1));
  const [column, row] = [at(right, field.right_range, field.columns), at(up, field.up_range, field.rows)];
  return field.steps[row * field.columns + column] ?? -1;
}

// One pixel per grid point, oriented as the view; scaled up smoothly when drawn.
export function picture(field, colours) {
  const canvas = new OffscreenCanvas(field.columns, field.rows);
  const context = canvas.getContext("2d");
  const image = context.createImageData(field.columns, field.rows);
  const table = fieldRamp(colours);
  const most = Math.max(...field.steps, 1);
  for (let row = 0; row < field.rows; row += 1) {
    const line = field.rows - 1 - row;
    for (let column = 0; column < field.columns; column += 1) {
      const steps = field.steps[row * field.columns + column];
      if (steps < 0) continue;
      const at = 4 * (line * field.columns + column);
      image.data.set(table[Math.round((255 * steps) / most)], at);
      image.data[at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// Lines of equal steps: [{level, lines: [[[column, row], ...], ...]}], in grid coordinates.
export function contours(field, step) {
  const most = Math.max(...field.steps);
  const levels = [];
  for (let level = step; level < most; level += step) levels.push({ level, lines: joined(segments(field, level)) });
  return levels;
}

function segments(field, level) {
  const result = [];
  const at = (row, column) => field.steps[row * field.columns + column];
  for (let row = 0; row + 1 < field.rows; row += 1) {
    for (let column = 0; column + 1 < field.columns; column += 1) {
      const corners = [at(row, column), at(row, column + 1), at(row + 1, column + 1), at(row + 1, column)];
      if (Math.min(...corners) < 0) continue;
      const places = [[column, row], [column + 1, row], [column + 1, row + 1], [column, row + 1]];
      const crossings = [];
      for (let side = 0; side < 4; side += 1) {
        const [a, b] = [corners[side], corners[(side + 1) % 4]];
        if (a < level === b < level) continue;
        const share = (level - a) / (b - a);
        const [p, q] = [places[side], places[(side + 1) % 4]];
        crossings.push([p[0] + share * (q[0] - p[0]), p[1] + share * (q[1] - p[1])]);
      }
      for (let first = 0; first + 1 < crossings.length; first += 2) result.push([crossings[first], crossings[first + 1]]);
    }
  }
  return result;
}

function joined(pieces) {
  const key = (point) => `${point[0].toFixed(4)} ${point[1].toFixed(4)}`;
  const ends = new Map();
  for (const piece of pieces) for (const point of piece) ends.set(key(point), [...(ends.get(key(point)) ?? []), piece]);
  const used = new Set();
  const lines = [];
  for (const piece of pieces) {
    if (used.has(piece)) continue;
    used.add(piece);
    const line = [...piece];
    for (const forwards of [true, false]) {
      for (;;) {
        const end = forwards ? line[line.length - 1] : line[0];
        const next = ends.get(key(end)).find((other) => !used.has(other));
        if (next === undefined) break;
        used.add(next);
        const point = key(next[0]) === key(end) ? next[1] : next[0];
        if (forwards) line.push(point);
        else line.unshift(point);
      }
    }
    lines.push(line);
  }
  return lines;
}

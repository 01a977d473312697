// One view of the environment: its coordinates and drawing order.

import { contours, contourStep, niceStep, picture } from "./field.js";

const NAMES = ["wall", "wallNew", "free", "start", "goal", "plan", "path", "replan", "route", "avoid", "text", "soft", "contour", "card", "fieldNear", "fieldMiddle", "fieldFar", "fanGood", "fanMiddle", "fanBad"];

// The theme's colours, from the style sheet.
export function themeColours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => {
    const variable = "--" + name.replace(/[A-Z]/g, (letter) => "-" + letter.toLowerCase());
    return [name, style.getPropertyValue(variable).trim()];
  }));
}

export class View {
  constructor(canvas, scene, number) {
    this.canvas = canvas;
    this.scene = scene;
    this.axes = scene.views[number];
    const { right_range: right, up_range: up } = this.axes;
    this.span = [right[1] - right[0], up[1] - up[0]];
    this.field = null;
    this.ruled = false; // whether axes are labelled
  }

  get aspect() {
    return this.span[0] / this.span[1];
  }

  resize(width) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.scale = width / this.span[0]; // page pixels per unit
    this.width = width;
    this.height = width / this.aspect;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(this.canvas.width / width, 0, 0, this.canvas.height / this.height, 0, 0);
  }

  // A place (goal dimensions) -> page pixels of this view.
  at(place) {
    return this.atAxes(place[this.axes.right], place[this.axes.up]);
  }

  atAxes(right, up) {
    const { right_range, up_range } = this.axes;
    return [(right - right_range[0]) * this.scale, (up_range[1] - up) * this.scale];
  }

  // Page pixels -> the place, with the dimension that this view does not show taken from `place`.
  moved(place, x, y) {
    const { right, up, right_range, up_range } = this.axes;
    const result = [...place];
    result[right] = round(right_range[0] + x / this.scale);
    result[up] = round(up_range[1] - y / this.scale);
    return result;
  }

  setField(field, colours) {
    const step = field && contourStep(Math.max(...field.steps));
    this.field = field && { ...field, picture: picture(field, colours), lines: contours(field, step) };
  }

  draw(shown, colours) {
    const { context } = this;
    context.fillStyle = colours.free;
    context.fillRect(0, 0, this.width, this.height);
    const labels = this.field ? this.#drawField(colours) : [];
    this.#drawWalls(shown.walls, colours);
    if (this.ruled) this.#drawRulers(colours);
    this.#drawLabels(labels, colours);
    for (const box of shown.boxes ?? []) this.#drawBox(box, colours.avoid, 0.25, [6, 4]);
    for (const goal of shown.oldGoals ?? []) this.#drawBox(this.#region(goal), colours.goal, 0, [3, 3]);
    this.#drawBox(this.#region(shown.goal), colours.goal, 0.3);
    for (const layer of shown.layers) this.#drawLayer(layer, colours);
  }

  // A box in goal dimensions, projected onto this view.
  #drawBox([low, high], colour, alpha, dash = []) {
    const { context } = this;
    const [a, b] = [this.at(low), this.at(high)];
    const box = [Math.min(a[0], b[0]), Math.min(a[1], b[1]), Math.abs(b[0] - a[0]), Math.abs(b[1] - a[1])];
    context.fillStyle = context.strokeStyle = colour;
    context.globalAlpha = alpha;
    context.fillRect(...box);
    context.globalAlpha = 1;
    context.lineWidth = dash.length ? 1.5 : 1;
    context.setLineDash(dash);
    context.strokeRect(...box);
    context.setLineDash([]);
  }

  // The goal region G_eps(g).
  #region(goal) {
    return [-1, 1].map((sign) => goal.map((value, dim) => value + sign * this.scene.tolerance[dim]));
  }

  // Numbers along the lower and the left edge.
  #drawRulers(colours) {
    const { context, axes } = this;
    const step = niceStep((46 / this.scale));
    context.font = "10.5px system-ui, sans-serif";
    context.strokeStyle = colours.text;
    context.globalAlpha = 0.75;
    const text = (value, x, y) => {
      context.lineWidth = 3;
      context.strokeStyle = colours.wall;
      if (this.scene.walls.length) context.strokeText(value, x, y);
      context.fillStyle = colours.text;
      context.fillText(value, x, y);
      context.strokeStyle = colours.text;
      context.lineWidth = 1;
    };
    const inside = ([low, high], margin) => {
      const values = [];
      for (let n = Math.ceil(low / step); n * step <= high; n += 1) if (n * step > low + margin / this.scale && n * step < high - margin / this.scale) values.push(round(n * step));
      return values;
    };
    context.lineWidth = 1;
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    for (const value of inside(axes.right_range, 14)) {
      const [x] = this.atAxes(value, 0);
      this.#line([[x, this.height], [x, this.height - 4]]);
      text(value, x, this.height - 6);
    }
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const value of inside(axes.up_range, 20)) {
      const [, y] = this.atAxes(0, value);
      this.#line([[0, y], [4, y]]);
      text(value, 6, y);
    }
    context.globalAlpha = 1;
  }

  #drawField(colours) {
    const { context, field } = this;
    context.imageSmoothingEnabled = true;
    context.imageSmoothingQuality = "high";
    context.drawImage(field.picture, 0, 0, this.width, this.height);
    context.strokeStyle = colours.contour;
    context.lineWidth = 1;
    const place = ([column, row]) => this.atAxes(
      field.right_range[0] + (column / (field.columns - 1)) * (field.right_range[1] - field.right_range[0]),
      field.up_range[0] + (row / (field.rows - 1)) * (field.up_range[1] - field.up_range[0]),
    );
    const labels = [];
    for (const { level, lines } of field.lines) {
      for (const line of lines) this.#line(line.map(place));
      const longest = lines.reduce((best, line) => (line.length > best.length ? line : best), []);
      if (longest.length > 3) labels.push([level, place(longest[Math.floor(longest.length / 2)])]);
    }
    return labels;
  }

  // Drawn after the walls, which would hide them.
  #drawLabels(labels, colours) {
    const { context } = this;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineWidth = 3;
    for (const [level, [x, y]] of labels) {
      context.strokeStyle = colours.free;
      context.strokeText(level, x, y);
      context.fillStyle = colours.text;
      context.fillText(level, x, y);
    }
  }

  // `changed` lists walls added to and removed from the scene's map.
  #drawWalls(changed, colours) {
    const { walls, added, removed } = changed ?? { walls: this.scene.walls, added: [], removed: [] };
    if (walls.length === 0) this.#drawGrid(colours);
    for (const [list, colour] of [[walls, colours.wall], [added, colours.wallNew]]) {
      this.context.fillStyle = colour;
      this.context.beginPath(); // one path, so that neighbours leave no seam
      for (const [x0, x1, y0, y1] of list) {
        const [a, b] = [this.at([x0, y0]), this.at([x1, y1])];
        this.context.rect(Math.min(a[0], b[0]), Math.min(a[1], b[1]), Math.abs(b[0] - a[0]), Math.abs(b[1] - a[1]));
      }
      this.context.fill();
    }
    for (const [x0, x1, y0, y1] of removed) this.#drawBox([[x0, y0], [x1, y1]], colours.wallNew, 0, [4, 4]);
  }

  // A workspace without walls: its edge, and a line at every whole unit.
  #drawGrid(colours) {
    const { context, axes } = this;
    context.strokeStyle = colours.wall;
    context.lineWidth = 1;
    context.globalAlpha = 0.45;
    for (let right = Math.ceil(axes.right_range[0]); right < axes.right_range[1]; right += 1) this.#line(axes.up_range.map((up) => this.atAxes(right, up)));
    for (let up = Math.ceil(axes.up_range[0]); up < axes.up_range[1]; up += 1) this.#line(axes.right_range.map((right) => this.atAxes(right, up)));
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeRect(0, 0, this.width, this.height);
  }

  #drawLayer(layer, colours) {
    const { context } = this;
    const points = layer.places.map((place) => this.at(place));
    context.globalAlpha = layer.alpha ?? 1;
    context.strokeStyle = context.fillStyle = layer.stroke ?? colours[layer.colour];
    if (layer.line) {
      context.lineWidth = layer.line;
      context.lineJoin = context.lineCap = "round";
      context.setLineDash(layer.dash ?? []);
      this.#line(points);
      context.setLineDash([]);
    }
    if (layer.dots) for (const point of points) this.#disc(point, layer.dots);
    if (layer.diamonds) this.#drawDiamonds(points, layer.diamonds, colours);
    if (layer.body) {
      this.#disc(points[0], Math.max(layer.body * this.scale, 5));
      context.strokeStyle = colours.card;
      context.lineWidth = 1.5;
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  #line(points) {
    this.context.beginPath();
    points.forEach(([x, y], number) => (number ? this.context.lineTo(x, y) : this.context.moveTo(x, y)));
    this.context.stroke();
  }

  #disc([x, y], radius) {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.context.fill();
  }

  // Of overlapping labels, only the first is drawn.
  #drawDiamonds(points, labels, colours) {
    for (const point of points) this.#diamond(point, colours);
    const written = [];
    points.forEach((point, number) => {
      if (written.some(([x, y]) => Math.abs(x - point[0]) < 40 && Math.abs(y - point[1]) < 13)) return;
      written.push(point);
      this.#diamondLabel(point, labels[number], colours);
    });
  }

  #diamond([x, y], colours) {
    const { context } = this;
    context.fillStyle = colours.replan;
    context.strokeStyle = colours.card;
    context.lineWidth = 1.5;
    context.beginPath();
    for (const [dx, dy] of [[0, -6], [6, 0], [0, 6], [-6, 0]]) context.lineTo(x + dx, y + dy);
    context.closePath();
    context.fill();
    context.stroke();
  }

  #diamondLabel([x, y], label, colours) {
    const { context } = this;
    context.fillStyle = colours.replan;
    context.strokeStyle = colours.card;
    context.font = "600 11px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.lineWidth = 3;
    context.strokeText(label, x + 9, y - 7);
    context.fillText(label, x + 9, y - 7);
  }
}

export function round(value) {
  return Math.round(value * 1000) / 1000;
}

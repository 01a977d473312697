// Boxes to avoid, and walls added to or removed from a point maze.

import { round } from "./view.js";

const $ = (id) => document.getElementById(id);
const MOST = 16;

export class Obstacles {
  #drawing = null;

  // `state` holds boxes [[low, high], ...] and cells [[row, column], ...] whose walls are toggled.
  constructor(scene, state, changed) {
    this.scene = scene;
    this.state = state;
    this.changed = changed;
    state.boxes = state.boxes.filter((box) => box.every((corner) => corner.length === scene.goal_names.length));
    state.cells = scene.map ? state.cells.filter(([row, column]) => scene.map.rows[row]?.[column] !== undefined) : [];
    $("placing-wall").hidden = scene.map === null;
    $("map-editor").hidden = scene.map === null;
    $("map-note").hidden = scene.map !== null;
    $("add-box").onclick = () => this.#change({ boxes: [...state.boxes, this.#middle()] });
    $("clear-obstacles").onclick = () => this.#change({ boxes: [], cells: [] });
    $("walls-known").onchange = () => this.#change({ wallsKnown: $("walls-known").checked });
    $("map").onchange = () => this.#readMap();
    this.show();
  }

  // The map's rows with toggled walls; null if unchanged.
  get rows() {
    if (!this.state.cells.length) return null;
    const rows = this.scene.map.rows.map((row) => [...row]);
    for (const [row, column] of this.state.cells) rows[row][column] = rows[row][column] === "#" ? "O" : "#";
    return rows.map((row) => row.join(""));
  }

  get walls() {
    const { map, walls } = this.scene;
    const around = ([row, column]) => [row, row + 1, column, column + 1].map((value, side) => round(map.origin[side >> 1] + (value - 0.5) * map.cell));
    const isWall = ([row, column]) => map.rows[row][column] === "#";
    const added = this.state.cells.filter((cell) => !isWall(cell)).map(around);
    const removed = this.state.cells.filter(isWall).map(around);
    const gone = (wall) => removed.some((other) => other.every((value, side) => Math.abs(value - wall[side]) < 1e-3));
    return { walls: [...walls.filter((wall) => !gone(wall)), ...added], added, removed };
  }

  get boxes() {
    return this.#drawing ? [...this.state.boxes, this.#drawing] : this.state.boxes;
  }

  // The corresponding fields of a request.
  get request() {
    const { boxes, wallsKnown } = this.state;
    const map = this.rows;
    return { ...(boxes.length ? { avoid: boxes } : {}), ...(map ? { map, walls_known: wallsKnown } : {}) };
  }

  drawn(kind, view, from, to, dropped) {
    if (kind === "wall") {
      if (dropped) this.#toggle(to);
      return;
    }
    const box = this.#box(view, from, to);
    const [right, up] = [view.axes.right, view.axes.up];
    const tiny = Math.max(box[1][right] - box[0][right], box[1][up] - box[0][up]) * view.scale < 8;
    this.#drawing = dropped || tiny ? null : box;
    if (!dropped) return;
    const hit = this.state.boxes.findIndex(([low, high]) => [right, up].every((dim) => low[dim] < to[dim] && to[dim] < high[dim]));
    if (!tiny) this.#change({ boxes: [...this.state.boxes, box] });
    else if (hit >= 0) this.#change({ boxes: this.state.boxes.filter((_, number) => number !== hit) });
  }

  // A box between two points; unbounded in the dimension that the view does not show.
  #box(view, from, to) {
    const low = from.map((value, dim) => Math.min(value, to[dim]));
    const high = from.map((value, dim) => Math.max(value, to[dim]));
    for (const other of this.scene.views) {
      if (other.up !== view.axes.up && other.up !== view.axes.right) [low[other.up], high[other.up]] = other.up_range;
      if (other.right !== view.axes.up && other.right !== view.axes.right) [low[other.right], high[other.right]] = other.right_range;
    }
    return [low, high];
  }

  // A box in the middle of the scene, to be edited by its numbers.
  #middle() {
    const view = this.scene.views[0];
    const middle = [...this.state.goal];
    const side = (view.right_range[1] - view.right_range[0]) / 20;
    middle[view.right] = (view.right_range[0] + view.right_range[1]) / 2;
    middle[view.up] = (view.up_range[0] + view.up_range[1]) / 2;
    return [-1, 1].map((sign) => middle.map((value) => round(value + sign * side)));
  }

  #toggle(place) {
    const { rows, origin, cell } = this.scene.map;
    const [row, column] = [0, 1].map((dim) => Math.round((place[dim] - origin[dim]) / cell));
    if (row < 1 || column < 1 || row >= rows.length - 1 || column >= rows[0].length - 1) return; // outer walls cannot be removed
    const others = this.state.cells.filter(([r, c]) => r !== row || c !== column);
    this.#change({ cells: others.length < this.state.cells.length ? others : [...others, [row, column]] });
  }

  #readMap() {
    const rows = $("map").value.trim().split("\n").map((row) => row.trim());
    const { rows: known } = this.scene.map;
    const right = rows.length === known.length && rows.every((row, number) => row.length === known[number].length && /^[#OG]+$/.test(row));
    if (!right) {
      $("map-error").textContent = `The map needs ${known.length} rows of ${known[0].length} cells: # is a wall, O is free.`;
      return;
    }
    const wall = (tile) => tile === "#";
    const cells = known.flatMap((row, r) => [...row].flatMap((tile, c) => (wall(tile) === wall(rows[r][c]) ? [] : [[r, c]])));
    this.#change({ cells });
  }

  #change(values) {
    if (values.boxes?.length > MOST) return;
    Object.assign(this.state, values);
    this.show();
    this.changed();
  }

  show() {
    const { boxes, cells, wallsKnown } = this.state;
    $("walls-known").checked = wallsKnown;
    $("clear-obstacles").disabled = !boxes.length && !cells.length;
    $("map-error").textContent = "";
    if (this.scene.map) $("map").value = (this.rows ?? this.scene.map.rows).join("\n");
    $("boxes").replaceChildren(...boxes.map((box, number) => this.#item(box, number)));
    const changes = [boxes.length && `${boxes.length} box${boxes.length > 1 ? "es" : ""}`, cells.length && `${cells.length} wall${cells.length > 1 ? "s" : ""} changed`].filter(Boolean);
    $("obstacles-count").textContent = changes.length ? ` (${changes.join(", ")})` : "";
    if (changes.length) $("obstacles").open = true;
  }

  #item(box, number) {
    const item = document.createElement("li");
    item.append(`${number + 1}.`);
    box.forEach((corner, end) => corner.forEach((value, dim) => {
      const input = Object.assign(document.createElement("input"), { type: "number", step: "any", value: Number(value.toFixed(3)) });
      input.setAttribute("aria-label", `Box ${number + 1}: ${end ? "upper" : "lower"} ${this.scene.goal_names[dim]}`);
      input.addEventListener("change", () => {
        const changed = box.map((other) => [...other]);
        changed[end][dim] = Number.parseFloat(input.value);
        if (!changed.flat().every(Number.isFinite) || changed[0].some((low, d) => low > changed[1][d])) input.value = value;
        else this.#change({ boxes: this.state.boxes.map((other) => (other === box ? changed : other)) });
      });
      const label = document.createElement("label");
      label.append(this.scene.goal_names[dim], input);
      if (end && dim === 0) item.append("to");
      item.append(label);
    }));
    const remove = Object.assign(document.createElement("button"), { type: "button", textContent: "Remove" });
    remove.setAttribute("aria-label", `Remove box ${number + 1}`);
    remove.addEventListener("click", () => this.#change({ boxes: this.state.boxes.filter((other) => other !== box) }));
    item.append(remove);
    return item;
  }
}

// Everything drawn: the views with their overlays, the legend entries that depend on them, and the 3-D view.

import { goalOf, layersOf } from "./layers.js";
import { Space } from "./space.js";
import { Stage } from "./stage.js";
import { themeColours } from "./view.js";

const MARK = 9; // pixels from the middle of the goal's mark to its edges
const $ = (id) => document.getElementById(id);

export class Picture {
  #frame = 0;
  stage = null;
  space = null;
  drawn = null; // last drawing
  colours = themeColours();

  constructor(model, changed) {
    this.model = model;
    this.changed = changed; // called after each redraw
  }

  // Sets another scene; `handlers` are its stage's.
  enter(handlers) {
    this.stage = new Stage($("views"), this.model.scene, { places: () => this.model.state, ...handlers });
    this.stage.resize();
  }

  // Overlays selected by the switches.
  show() {
    const { model } = this;
    if (!model.state.field) for (const view of this.stage.views) view.setField(null);
    $("space").hidden = !model.isSpatial;
    if (!model.isSpatial) this.space = null;
    else if (this.space?.scene !== model.scene) this.space = new Space($("space"), model.scene, () => this.redraw());
    this.space?.resize();
    this.redraw(); // a canvas that is resized is empty
  }

  setField(number, field) {
    this.stage.views[number].setField(field, this.colours);
    this.redraw();
  }

  resize() {
    this.stage.resize();
    this.space?.resize();
    this.draw();
  }

  recolour() {
    this.colours = themeColours();
    for (const view of this.stage?.views ?? []) if (view.field) view.setField(view.field, this.colours);
    this.draw();
  }

  redraw() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    if (!this.stage) return;
    const { scene, state, obstacles, known, refused, passed, at } = this.model;
    const { walls, boxes } = obstacles;
    const oldGoals = passed.filter((goal) => goal.some((value, dim) => value !== state.goal[dim]));
    const layers = layersOf(known, scene, state, at, refused.length ? 0.35 : 1, this.colours);
    this.drawn = { goal: state.goal, oldGoals, walls, boxes, layers, refused };
    this.stage.draw(this.drawn, this.colours);
    $("field-legend").hidden = !state.field || !this.stage.views[0].field;
    $("fan-legend").hidden = !state.fan || !known.fan;
    $("route-none").hidden = !known.plan || known.plan.route.length > 0;
    $("region-legend").hidden = !this.#isRegionSeen();
    $("passed-legend").hidden = !oldGoals.length;
    $("next-legend").hidden = !known.next;
    $("box-legend").hidden = !boxes.length;
    $("wall-legend").hidden = !walls.added.length && !walls.removed.length;
    if (this.space) this.#drawSpace();
    this.changed();
  }

  // Whether the goal region is larger than the mark of the goal, which would hide it.
  #isRegionSeen() {
    const { tolerance } = this.model.scene;
    return this.stage.views.some(({ axes, scale }) => Math.max(tolerance[axes.right], tolerance[axes.up]) * scale > MARK);
  }

  #drawSpace() {
    const { scene, state, obstacles, known, at } = this.model;
    const plan = known.plan?.states.map((values) => goalOf(values, scene)) ?? [];
    const path = known.execution?.places.slice(0, at.step + 1) ?? [];
    const { walls, boxes } = obstacles;
    this.space.draw({ walls: walls.walls, boxes, goal: state.goal, plan, path, skeleton: known.execution?.skeleton, step: at.step }, this.colours);
  }

  // Canvases on screen, for images and films.
  get canvases() {
    const { scene, state } = this.model;
    const pictures = [...this.stage.views.map((view) => ({ canvas: view.canvas, view })), ...(this.space ? [{ canvas: this.space.canvas }] : [])];
    return { environment: scene.environment, pictures, start: state.start, goal: state.goal, colours: this.colours };
  }
}

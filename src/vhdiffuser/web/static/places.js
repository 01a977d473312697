// Coordinates: those under the pointer, and editable ones of start and goal.

import { stepsAt } from "./field.js";
import { blocked } from "./free.js";

export class Places {
  #inputs = {};

  constructor(form, readout, scene, moved) {
    this.form = form;
    this.readout = readout;
    this.scene = scene;
    form.replaceChildren();
    for (const name of ["start", "goal"]) {
      const group = document.createElement("fieldset");
      const legend = document.createElement("legend");
      legend.textContent = name === "start" ? "Start" : "Goal";
      group.append(legend);
      this.#inputs[name] = scene.goal_names.map((axis, dim) => {
        const label = document.createElement("label");
        const input = Object.assign(document.createElement("input"), { type: "number", step: "any", id: `${name}-${axis}` });
        input.setAttribute("aria-label", `${legend.textContent} ${axis}`);
        input.addEventListener("change", () => {
          const value = Number.parseFloat(input.value);
          if (!Number.isFinite(value)) input.value = this.shown[name][dim];
          else moved(name, this.shown[name].map((old, other) => (other === dim ? value : old)), true);
        });
        label.append(axis, input);
        group.append(label);
        return input;
      });
      form.append(group);
    }
    this.clearPointer();
  }

  // A field that is being edited keeps its text until its coordinate changes.
  show(places) {
    const before = this.shown;
    this.shown = { start: places.start, goal: places.goal };
    for (const [name, inputs] of Object.entries(this.#inputs)) {
      inputs.forEach((input, dim) => {
        const value = places[name][dim];
        const edited = document.activeElement === input && (value === before?.[name][dim] || value === Number.parseFloat(input.value));
        if (!edited) input.value = Number(value.toFixed(3));
      });
    }
  }

  pointer(view, x, y, walls, boxes) {
    const { goal_names: names, unit } = this.scene;
    const { right, up } = view.axes;
    const place = view.moved(this.shown.goal, x, y);
    const parts = [`${names[right]} ${place[right].toFixed(2)}, ${names[up]} ${place[up].toFixed(2)}${unit && ` ${unit}`}`];
    const why = blocked("place", place, this.scene, walls, boxes);
    if (why.includes("wall")) parts.push(why.includes("inside") ? "wall" : "too close to a wall");
    else if (why) parts.push("in a box to avoid");
    const steps = view.field ? stepsAt(view.field, place[right], place[up]) : -1;
    if (steps >= 0) parts.push(`${Math.round(steps)} steps to the goal`);
    this.readout.textContent = parts.join(" \u00b7 ");
  }

  clearPointer() {
    const { goal_names: names, unit } = this.scene;
    const advice = Object.assign(document.createElement("span"), { className: "mouse", textContent: ": hover over the scene to read coordinates" });
    this.readout.replaceChildren(`${names.join(", ")}${unit && ` in ${unit}`}`, advice);
  }
}

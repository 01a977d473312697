// The views with their handles: click, drag and arrow keys move the start and the goal.

import { round, View } from "./view.js";

const TALLEST = { above: 0.66, beside: 0.76, phone: 0.46 }; // maximum height of all views together, as a fraction of the window's, with the controls below, beside, or below and scrolled while the views stay
const BESIDE = 274; // pixels that controls beside the views need, gap included
const NARROW = 0.72; // the views move beside the controls if they keep at least this fraction of their width

export class Stage {
  constructor(parent, scene, { places, placing, moved, drawn, pointed }) {
    this.parent = parent;
    this.scene = scene;
    this.places = places; // {start, goal}, read at every drawing
    this.placing = placing; // () -> what a click moves ("start" or "goal") or draws ("box" or "wall")
    this.moved = moved; // (name, place, dropped)
    this.drawn = drawn; // (kind, view, from, to, dropped): a box or a wall is drawn between two places
    this.pointed = pointed; // (view, x, y), or () when the pointer leaves
    parent.replaceChildren();
    this.views = scene.views.map((axes, number) => this.#build(axes, number));
  }

  #build(axes, number) {
    const figure = document.createElement("figure");
    figure.className = "view";
    if (this.scene.views.length > 1) {
      const caption = document.createElement("figcaption");
      const { goal_names: names, unit } = this.scene;
      caption.textContent = `${axes.title}: ${names[axes.right]} to the right, ${names[axes.up]} upwards${unit && `, in ${unit}`}`;
      figure.append(caption);
    }
    const surface = document.createElement("div");
    surface.className = "surface";
    const canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${this.scene.environment} ${axes.title}`);
    surface.append(canvas);
    figure.append(surface);
    this.parent.append(figure);
    const view = new View(canvas, this.scene, number);
    view.handles = Object.fromEntries(["start", "goal"].map((name) => [name, this.#handle(view, surface, name)]));
    view.ruled = true;
    surface.addEventListener("pointermove", (event) => this.pointed(view, ...this.#within(view, event)));
    surface.addEventListener("pointerleave", () => this.pointed());
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const name = event.shiftKey ? "start" : this.placing();
      if (name === "box" || name === "wall") this.#draw(view, name, event);
      else {
        this.#drag(view, name, event, view.handles[name]);
        this.#move(view, name, event, false);
      }
    });
    return view;
  }

  // From where the pointer went down to where it is.
  #draw(view, kind, event) {
    event.preventDefault();
    view.canvas.setPointerCapture(event.pointerId);
    const at = (pointer) => view.moved(this.places().goal, ...this.#within(view, pointer));
    const from = at(event);
    const follow = (move) => this.drawn(kind, view, from, at(move), false);
    const drop = (up) => {
      view.canvas.removeEventListener("pointermove", follow);
      view.canvas.removeEventListener("pointerup", drop);
      view.canvas.removeEventListener("pointercancel", drop);
      this.drawn(kind, view, from, at(up), true);
    };
    view.canvas.addEventListener("pointermove", follow);
    view.canvas.addEventListener("pointerup", drop);
    view.canvas.addEventListener("pointercancel", drop);
  }

  #within(view, event, grip = [0, 0]) {
    const box = view.canvas.getBoundingClientRect();
    const x = Math.min(Math.max(event.clientX - box.left - grip[0], 0), view.width);
    return [x, Math.min(Math.max(event.clientY - box.top - grip[1], 0), view.height)];
  }

  #handle(view, surface, name) {
    const handle = document.createElement("button");
    handle.type = "button";
    handle.className = `handle ${name}`;
    handle.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.stopPropagation();
      this.#drag(view, name, event, handle);
    });
    handle.addEventListener("keydown", (event) => this.#key(view, name, event));
    surface.append(handle);
    return handle;
  }

  // Follows the pointer until release, keeping the offset at which the handle was grabbed.
  #drag(view, name, event, handle) {
    event.preventDefault();
    handle.focus({ preventScroll: true });
    handle.setPointerCapture(event.pointerId);
    const onHandle = event.currentTarget === handle;
    const box = view.canvas.getBoundingClientRect();
    const [x, y] = view.at(this.places()[name]);
    const grip = onHandle ? [event.clientX - box.left - x, event.clientY - box.top - y] : [0, 0];
    const follow = (move) => this.#move(view, name, move, false, grip);
    const drop = (up) => {
      handle.removeEventListener("pointermove", follow);
      handle.removeEventListener("pointerup", drop);
      handle.removeEventListener("pointercancel", drop);
      this.#move(view, name, up, true, grip);
    };
    handle.addEventListener("pointermove", follow);
    handle.addEventListener("pointerup", drop);
    handle.addEventListener("pointercancel", drop);
  }

  #move(view, name, event, dropped, grip = [0, 0]) {
    this.moved(name, view.moved(this.places()[name], ...this.#within(view, event, grip)), dropped);
  }

  #key(view, name, event) {
    const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (direction === undefined) return;
    event.preventDefault();
    const { right, up, right_range, up_range } = view.axes;
    const step = (view.span[0] / 100) * (event.shiftKey ? 5 : 1);
    const place = [...this.places()[name]];
    const clip = (value, [low, high]) => round(Math.min(Math.max(value, low), high));
    place[right] = clip(place[right] + direction[0] * step, right_range);
    place[up] = clip(place[up] + direction[1] * step, up_range);
    this.moved(name, place, !event.repeat);
  }

  // The controls stand beside the views where that costs the views little. On a phone, the picture is a card of its own.
  resize() {
    const stage = this.parent.closest(".stage");
    const alone = getComputedStyle(stage).display === "contents";
    const card = alone ? this.parent.closest(".picture") : stage;
    const style = getComputedStyle(card);
    const room = card.clientWidth - Number.parseFloat(style.paddingLeft) - Number.parseFloat(style.paddingRight);
    const heights = this.views.reduce((sum, view) => sum + 1 / view.aspect, 0);
    const fitting = (wide, share) => Math.min(wide, Math.max(window.innerHeight * share, 260) / heights);
    const [above, beside] = [fitting(room, alone ? TALLEST.phone : TALLEST.above), fitting(room - BESIDE, TALLEST.beside)];
    const split = !alone && beside >= NARROW * above;
    stage.classList.toggle("split", split);
    const width = Math.max(split ? beside : above, 160);
    for (const view of this.views) view.resize(width);
  }

  draw(shown, colours) {
    const places = this.places();
    for (const view of this.views) {
      view.draw(shown, colours);
      for (const [name, handle] of Object.entries(view.handles)) {
        const [x, y] = view.at(places[name]);
        handle.style.left = `${x}px`;
        handle.style.top = `${y}px`;
        const spoken = this.scene.goal_names.map((axis, dim) => `${axis} ${places[name][dim].toFixed(2)}`).join(", ");
        handle.setAttribute("aria-label", `${name === "start" ? "Start" : "Goal"} at ${spoken}. Arrow keys move it.`);
        handle.classList.toggle("refused", shown.refused?.includes(name) ?? false);
      }
    }
  }
}

// State of the page: scene, settings, obstacles and the newest replies; and request bodies made from it.

import { blocked } from "./free.js";

// Defaults, left out of links.
export const plain = () => ({ seed: 0, protocol: "rp", field: false, compare: false, route: false, fan: false, space: false, boxes: [], cells: [], wallsKnown: true, deadline: null, arrive: "by" });

const nothing = () => ({ plan: null, execution: null, next: null, fan: null });

export class Model {
  state = { ...plain(), environment: "", start: [], goal: [], gamma: 1, risk: null, sampler: "", steps: 1 };
  scene = null;
  obstacles = null;
  known = nothing(); // the newest replies
  refused = []; // "start" or "goal" if its position is invalid
  passed = []; // earlier goals
  at = { denoising: null, step: 0 }; // frames shown; null: the plan

  // Sets another scene, with the requested settings where they apply.
  enter(scene, wanted) {
    const { state } = this;
    const fits = (place) => Array.isArray(place) && place.length === scene.goal_names.length;
    const risk = wanted.gamma === undefined ? scene.risk : null; // a margin alone replaces the risk
    Object.assign(state, { gamma: scene.gamma, risk, sampler: scene.sampler, steps: scene.steps }, wanted);
    if (!scene.calibrated) state.risk = state.deadline = null;
    if (!scene.samplers.includes(state.sampler)) state.sampler = scene.sampler;
    state.start = fits(wanted.start) ? wanted.start : scene.start;
    state.goal = fits(wanted.goal) ? wanted.goal : scene.goal;
    this.scene = scene;
    this.forget();
  }

  forget() {
    this.known = nothing();
  }

  // Settings kept for another environment: neither positions nor planner settings.
  kept(environment) {
    const { seed, protocol, field, compare, route, fan, space } = this.state;
    return { ...plain(), environment, seed, protocol, field, compare, route, fan, space };
  }

  get settings() {
    const { environment, gamma, risk, sampler, steps, seed } = this.state;
    return { environment, gamma, risk, sampler, steps, seed, ...this.obstacles.request };
  }

  get pair() {
    return { ...this.settings, start: this.state.start, goal: this.state.goal };
  }

  get request() {
    const { deadline, arrive } = this.state;
    return { ...this.pair, ...(deadline === null ? {} : { deadline, arrive }) };
  }

  get execution() {
    return { ...this.request, protocol: this.state.protocol, ...(this.isSpatial ? { skeleton: true } : {}) };
  }

  get trials() {
    return { ...this.settings, protocol: this.state.protocol };
  }

  get isSpatial() {
    return this.state.space && this.scene.spatial;
  }

  // Why start or goal cannot be there; empty if they can.
  blocked(name, place = this.state[name]) {
    return blocked(name, place, this.scene, this.obstacles.walls.walls, this.state.boxes);
  }
}

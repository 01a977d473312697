// Shows the server's replies: horizon, plan, execution, candidates and refusals.

import { canFilm } from "./film.js";
import { scaleOf } from "./layers.js";
import { Player } from "./player.js";
import { Results } from "./results.js";

const $ = (id) => document.getElementById(id);

export class Answers {
  results = new Results();

  constructor(model, picture) {
    this.model = model;
    this.picture = picture;
    this.denoising = new Player($("denoise-play"), $("denoise"), $("denoise-at"), {
      seconds: (frames) => Math.min(1 + frames * 0.12, 5),
      label: (frame, last) => (last ? (frame === last ? "plan" : frame === 0 ? "noise" : `step ${model.known.plan.frames[frame]} of ${model.known.plan.steps}`) : ""),
      changed: () => this.#frames(),
    });
    this.playing = new Player($("execute-play"), $("execute"), $("execute-at"), {
      seconds: (steps) => Math.min(Math.max(steps * model.scene.control_dt, 1.5), 8),
      label: (frame, last) => (last ? `${frame} of ${last}` : ""),
      changed: () => this.#frames(),
    });
  }

  #frames() {
    this.model.at = { denoising: this.denoising.atEnd ? null : this.denoising.frame, step: this.playing.frame };
    this.results.at(this.playing.frame);
    this.picture.redraw();
  }

  // Clears everything: for another scene, or before the first reply.
  clear() {
    this.model.forget();
    this.clearRefusal();
    this.results.clear();
    this.#allowSaving(false);
    this.denoising.load(0);
    this.playing.load(0);
  }

  horizon(horizon) {
    this.clearRefusal();
    this.results.horizon(this.model.scene, horizon);
  }

  // `asked` is the time of the change that led to this reply.
  plan(plan, body, asked) {
    const { model } = this;
    model.known = { plan, execution: null, next: null, fan: model.known.fan, start: body.start, goal: body.goal };
    this.denoising.load(plan.frames.length);
    this.playing.load(0);
    this.results.plan(model.scene, plan);
    this.#allowSaving(true);
    this.picture.draw();
    const drawn = Math.round(performance.now() - asked);
    $("status").textContent = `${plan.length} states planned in ${Math.round(plan.seconds * 1000)} ms (${plan.sampler}, ${plan.steps} steps), drawn ${drawn} ms after the move.`;
    $("status").dataset.drawn = drawn;
  }

  // Shows the end of the execution, or a control step.
  execution(execution, step) {
    Object.assign(this.model.known, { execution, next: null });
    this.results.execution(this.model.scene, execution);
    this.playing.load(execution.places.length, step);
  }

  fan(fan) {
    this.model.known.fan = fan;
    const scale = scaleOf(fan);
    const [low, high] = scale.map((score) => score.toFixed(scale[1] - scale[0] < 5 ? 1 : 0).replace("-", "\u2212"));
    $("fan-low").textContent = low;
    $("fan-high").textContent = `${high} or more`;
    $("fan-count").textContent = fan.candidates.length;
    this.picture.redraw();
  }

  // `body` is the refused request, if it was for a plan.
  refuse(error, body) {
    if (error.kind === "deadline") {
      this.#refuseDeadline();
      return;
    }
    const match = error.kind === "refused" ? error.message.match(/\b(start|goal)\b/) : null;
    this.say(error.message, match && body ? [match[1]] : []);
    if (!body) return;
    this.playing.load(0);
    this.model.known.execution = null;
    this.results.refused(error.message);
  }

  // Shows why a request was refused, and marks the offending points.
  say(reason, places = []) {
    $("refusal-text").textContent = reason.charAt(0).toUpperCase() + reason.slice(1);
    $("refusal").hidden = false;
    this.model.refused = places;
    this.picture.redraw();
  }

  clearRefusal() {
    $("refusal").hidden = true;
    this.model.refused = [];
  }

  // The horizon is known and shows next to the control how many steps would be enough.
  #refuseDeadline() {
    this.model.forget();
    this.denoising.load(0);
    this.playing.load(0);
    this.#allowSaving(false);
    this.results.refused(`the deadline is too early; ${this.results.shown.horizon.deadline.steps} steps would be enough.`);
    $("status").textContent = `No plan arrives by step ${this.model.state.deadline} with the accepted risk.`;
    this.picture.redraw();
  }

  #allowSaving(allowed) {
    for (const id of ["save-json", "save-csv", "save-png"]) $(id).disabled = !allowed;
    $("film").disabled = !allowed || !canFilm;
  }
}

// Requests sent when the state changes: plan and execution, field, candidates, comparison.

import { Newest, post, stream } from "./api.js";
import { toHash } from "./link.js";

const $ = (id) => document.getElementById(id);

export class Questions {
  #asked = 0; // time of the last change
  #comparisonDue = false;

  // `background(busy)` pauses random pairs; `comparison` and `averages` belong to the scene.
  constructor(model, answers, picture, background) {
    Object.assign(this, { model, answers, picture, background, comparison: null, averages: null });
    this.plans = new Newest((body, signal, shown) => this.#plan(body, signal, shown), (error, body) => {
      answers.refuse(error, body);
      this.comparison.refuse();
      background(false);
    });
    this.fields = new Newest((body, signal) => this.#field(body, signal), () => {}); // errors are reported by the plan's request
    this.fans = new Newest(async (body, signal) => answers.fan(await post("api/candidates", body, signal)), (error) => answers.refuse(error));
    this.comparisons = new Newest((body, signal) => this.#compare(body, signal), () => this.comparison.refuse());
  }

  // Requests everything that depends on the state; candidates and comparison after the execution.
  ask(dropped = true) {
    const { model } = this;
    this.#asked = performance.now();
    Object.assign(model.known, { next: null, fan: null });
    this.fans.stop();
    this.comparisons.stop();
    if (dropped) history.replaceState(null, "", toHash(model.state, model.scene)); // browsers limit the rate of these
    const why = model.blocked("start") || model.blocked("goal");
    if (why) {
      this.plans.stop();
      this.fields.stop();
      this.answers.refuse({ kind: "refused", message: why }, model.request);
      this.background(false);
      return;
    }
    this.background(true);
    this.plans.ask(model.scene.executes ? model.execution : model.request, dropped);
    const { environment, start, goal, field } = model.state;
    const map = model.obstacles.rows;
    if (field) this.fields.ask({ environment, start, goal, ...(map ? { map } : {}) }, dropped);
    this.#comparisonDue = model.state.compare && model.scene.executes;
    if (this.#comparisonDue) this.comparison.wait();
    this.picture.redraw();
  }

  stop() {
    for (const newest of [this.plans, this.fields, this.fans, this.comparisons]) newest.stop();
  }

  async #plan(body, signal, shown) {
    for await (const [event, value] of stream("api/stream", body, signal)) {
      if (event === "horizon") this.answers.horizon(value);
      if (event === "plan") {
        this.answers.plan(value, body, this.#asked);
        shown();
      }
      if (event === "execution") this.answers.execution(value);
    }
    this.background(false);
    if (this.model.state.fan) this.fans.ask(this.model.pair, true);
    if (this.#comparisonDue) {
      this.#comparisonDue = false;
      this.comparisons.ask({ ...this.model.pair, protocol: this.model.state.protocol }, true);
    }
  }

  async #field(body, signal) {
    for (let view = 0; view < this.model.scene.views.length; view += 1) {
      const field = await post("api/field", { ...body, view }, signal);
      if (!this.model.state.field) return;
      this.picture.setField(view, field);
      $("field-max").textContent = Math.round(Math.max(...field.steps));
    }
  }

  async #compare(body, signal) {
    this.comparison.wait();
    for await (const [event, value] of stream("api/compare", body, signal)) {
      if (event === "method") this.comparison.add(value, { goal: body.goal }, this.picture.colours);
    }
    if (!this.averages.running && !this.averages.done) this.averages.run(this.model.trials);
  }
}

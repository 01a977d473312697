// Executions of random pairs in the background, and their statistics.

import { stream } from "./api.js";

const $ = (id) => document.getElementById(id);
const CHUNK = 5; // pairs per request
const PAUSE = 1500; // milliseconds before retrying a busy server
const AGAIN = ["slow", "busy", "share", "stale", "offline"];
const ENDINGS = { fell: "fell over", stuck: "got stuck", "out-of-steps": "ran out of steps", "off-plan": "left the plan", missed: "missed at the plan\u2019s end" };

export function summary(trials) {
  const reached = trials.filter((one) => one.success);
  const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
  return { trials: trials.length, reached: reached.length, steps: mean(reached.map((one) => one.steps)), replans: mean(trials.map((one) => one.replans)), planning: mean(trials.map((one) => one.planning_seconds / (one.replans + 1))) };
}

// Wilson 95 % interval of a proportion, in per cent.
export function interval(reached, trials) {
  const z = 1.96;
  const share = reached / trials;
  const middle = (share + (z * z) / (2 * trials)) / (1 + (z * z) / trials);
  const half = (z / (1 + (z * z) / trials)) * Math.sqrt((share * (1 - share)) / trials + (z * z) / (4 * trials * trials));
  return [middle - half, middle + half].map((value) => Math.min(Math.max(100 * value, 0), 100));
}

// Runs `count` random pairs with each method, in turns. Pauses while other requests are in progress.
export class Trials {
  #controller = null;
  #request = null; // the one under way
  #resume = null;
  #paused = false;

  constructor(methods, count, changed, failed) {
    Object.assign(this, { methods, count, changed, failed });
    this.found = methods.map(() => []);
  }

  get running() {
    return this.#controller !== null && !this.#controller.signal.aborted;
  }

  get done() {
    return this.found.every((trials) => trials.length >= this.count);
  }

  async run(body) {
    this.stop();
    this.found = this.methods.map(() => []);
    const controller = (this.#controller = new AbortController());
    this.changed();
    try {
      while (!this.done && !controller.signal.aborted) {
        for (let number = 0; number < this.methods.length; number += 1) await this.#chunk(body, number, controller);
      }
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
    }
    if (this.#controller === controller) this.#controller = null;
    this.changed();
  }

  async #chunk(body, number, controller) {
    const found = this.found[number];
    const upTo = Math.min(this.count, found.length + CHUNK);
    while (found.length < upTo) {
      if (this.#paused) await new Promise((resolve) => { this.#resume = resolve; });
      if (controller.signal.aborted) return;
      this.#request = new AbortController();
      const signal = AbortSignal.any([controller.signal, this.#request.signal]);
      try {
        for await (const [event, value] of stream("api/trials", { ...body, method: this.methods[number], first: found.length, count: upTo - found.length }, signal)) {
          if (event !== "trial") continue;
          found.push(value);
          this.changed();
        }
      } catch (error) {
        if (error.name === "AbortError" && !controller.signal.aborted) continue; // paused; continues later
        if (!AGAIN.includes(error.kind)) throw error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    }
  }

  // Requests that the user waits for come first.
  pause(paused) {
    this.#paused = paused;
    if (paused) this.#request?.abort();
    else this.#resume?.();
  }

  forget() {
    this.stop();
    this.found = this.methods.map(() => []);
    this.changed();
  }

  stop() {
    this.#controller?.abort();
    this.#controller = null;
    this.#resume?.();
  }
}

// The card: progress, success rate, and the failed pairs.
export class StatisticsCard {
  constructor(body, opened) {
    this.body = body; // () -> request body
    this.opened = opened; // (trial): called to show this pair in the scene
    this.trials = new Trials(["vhd"], Number($("trials-count").value), () => this.show(), (error) => { $("trials-text").textContent = error.message; });
    $("trials-run").onclick = () => (this.trials.running ? this.trials.stop() : this.trials.run(this.body()));
    $("trials-count").onchange = () => { this.trials.count = Number($("trials-count").value); };
    this.show();
  }

  // The settings differ from those of the results shown.
  outdate() {
    this.trials.stop();
    if (this.trials.found[0].length) $("trials-text").textContent = "Settings changed: run again.";
    this.trials.found = [[]];
    $("trials-failed").replaceChildren();
    $("trials-bar").hidden = true;
    $("trials-run").textContent = "Run";
  }

  show() {
    const [found] = this.trials.found;
    const { trials, reached, steps, replans, planning } = summary(found);
    $("trials-run").textContent = this.trials.running ? "Stop" : "Run";
    $("trials-bar").hidden = !trials && !this.trials.running;
    $("trials-bar").max = this.trials.count;
    $("trials-bar").value = trials;
    if (!trials) {
      $("trials-text").textContent = this.trials.running ? "Running the first pair\u2026" : "";
      $("trials-failed").replaceChildren();
      return;
    }
    const [low, high] = interval(reached, trials);
    const shares = `${reached} of ${trials} reached: ${((100 * reached) / trials).toFixed(0)}\u00a0% (95\u00a0% interval ${low.toFixed(0)} to ${high.toFixed(0)}\u00a0%).`;
    const means = steps === null ? "" : ` Means: ${Math.round(steps)} steps to the goal, ${replans.toFixed(1)} replans, ${Math.round(planning * 1000)} ms per plan.`;
    $("trials-text").textContent = shares + means;
    $("trials-failed").replaceChildren(...found.filter((one) => !one.success).map((trial) => {
      const item = document.createElement("li");
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: `pair ${trial.number}`, title: trial.explanation });
      button.addEventListener("click", () => this.opened(trial));
      item.append(button, ` ${ENDINGS[trial.ending] ?? trial.ending}`);
      return item;
    }));
  }
}

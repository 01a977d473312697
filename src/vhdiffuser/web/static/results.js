// The cards beside the scene: the horizon, and how the execution went.

import { drawLatencies, drawRuler, drawTimeline, isMany } from "./charts.js";

const $ = (id) => document.getElementById(id);
const BARS = "One bar per plan: its length is the horizon, the filled part was executed.";
const CURVE = "The horizon falls by one per step if the robot moves as predicted.";
const likely = (probability) => (probability > 0.99 ? "over 0.99" : probability < 0.01 ? "below 0.01" : probability.toFixed(2));
const WHY = { deviation: "off the plan", ended: "the plan had ended", goal: "the goal had moved", due: "due at every step" };

export class Results {
  #moveCursor = () => {};
  #execution = null;
  #period = 0; // seconds of a control step

  // Clears the cards: for another environment, or before the first reply.
  clear() {
    $("length").textContent = "\u2013";
    this.#facts();
    $("ruler").replaceChildren();
    $("notes").hidden = $("deadline-note").hidden = true;
    this.shown = null;
    this.#verdict("", "\u00a0");
    this.#forget();
  }

  horizon(scene, horizon) {
    $("length").textContent = horizon.length;
    drawRuler($("ruler"), scene, horizon);
    const chance = horizon.probability !== null && horizon.reachable !== false;
    this.#facts(
      `${horizon.low} to ${horizon.high} for starts and goals within the tolerance.`,
      horizon.quantile_spread !== null && `Predicted quantiles lie ${Math.round(horizon.quantile_spread)} steps apart.`,
      chance && `Arrives with probability ${likely(horizon.probability)}, mostly after ${horizon.interval.join(" to ")} steps.`,
      horizon.deadline?.kept && `In time for the deadline, step ${horizon.deadline.limit}.`,
    );
    $("notes").hidden = horizon.notes.length === 0;
    $("notes").textContent = horizon.notes.join(" ");
    const late = horizon.deadline && !horizon.deadline.kept;
    $("deadline-note").hidden = !late;
    if (late) {
      const { limit, steps, risk, probability } = horizon.deadline;
      $("deadline-note").textContent = `${limit} steps are too few: a risk of ${Math.round(100 * risk)} % needs ${steps}.${probability === null ? "" : ` The probability of arriving by step ${limit} is ${likely(probability)}.`}`;
    }
    this.shown = { scene, horizon };
  }

  // A detour around boxes, or a late deadline, makes a plan longer than the predicted horizon.
  plan(scene, plan) {
    const { horizon } = this.shown ?? {};
    if (horizon && plan.length !== horizon.length) {
      $("length").textContent = plan.length;
      this.#facts(horizon.deadline
        ? `${horizon.length} would be enough; slowed down to arrive at step ${horizon.deadline.limit}.`
        : `${horizon.length} without obstacles; the detour adds ${plan.length - horizon.length}.`);
      this.shown = { scene, horizon: { ...horizon, length: plan.length } };
      drawRuler($("ruler"), scene, this.shown.horizon);
    }
    $("timeline").classList.add("stale"); // until the new one is there
    $("replans").hidden = $("latency").hidden = true;
    const commands = scene.commands.join(" and ");
    const unable = scene.commands.length ? `Not executed: the controller has no weights. Train it with ${commands}.` : "Not executed: this environment has data but no simulator.";
    this.#verdict("wait", scene.executes ? "executing\u2026" : unable);
  }

  execution(scene, execution) {
    this.#execution = execution;
    this.#period = scene.control_dt;
    const replans = execution.plans.length - 1;
    $("timeline").classList.remove("stale");
    this.#draw();
    const boxes = execution.intrusions ? ` ${execution.intrusions} steps led through a box to avoid.` : "";
    this.#verdict(execution.success ? "good" : "bad", `${execution.success ? "\u2713" : "\u2717"} ${execution.explanation}${boxes}`);
    $("verdict").dataset.ending = execution.ending;
    $("replans").hidden = replans === 0;
    $("replans").querySelector("summary").textContent = `${replans} new horizon${replans > 1 ? "s" : ""}`;
    $("replans").querySelector("ol").replaceChildren(...execution.plans.slice(1).map((plan) => {
      const item = document.createElement("li");
      item.textContent = `step ${plan.step}: ${plan.length} states, ${WHY[plan.reason]} (${Math.round(plan.seconds * 1000)} ms)`;
      return item;
    }));
  }

  refused(reason) {
    this.#forget();
    this.#verdict("wait", `Not executed: ${reason}`);
  }

  moved(text) {
    this.#verdict("wait", text);
  }

  at(step) {
    this.#moveCursor(step);
  }

  resize() {
    if (this.#execution) this.#draw();
    if (this.shown) drawRuler($("ruler"), this.shown.scene, this.shown.horizon);
  }

  // The plans over the steps, and how long each took to make.
  #draw() {
    $("timeline-note").textContent = isMany(this.#execution) ? CURVE : BARS;
    const moves = [drawTimeline($("timeline"), this.#execution)];
    const times = this.#execution.plans.map((plan) => plan.seconds * 1000);
    $("latency").hidden = times.length < 2;
    if (times.length > 1) {
      const sorted = [...times].sort((one, other) => one - other);
      const half = (sorted.length - 1) / 2;
      const median = (sorted[Math.floor(half)] + sorted[Math.ceil(half)]) / 2;
      const period = this.#period * 1000;
      const late = times.filter((time) => time > period).length;
      $("latency-text").textContent = `${times.length} plans: median ${median.toFixed(0)} ms, longest ${sorted.at(-1).toFixed(0)} ms; ${late || "none"} took longer than a control step of ${period.toFixed(0)} ms.`;
      $("latencies").hidden = !isMany(this.#execution);
      if (isMany(this.#execution)) moves.push(drawLatencies($("latencies"), this.#execution, period));
    }
    this.#moveCursor = (step) => moves.forEach((move) => move(step));
  }

  #forget() {
    this.#execution = null;
    this.#moveCursor = () => {};
    $("timeline").replaceChildren();
    $("replans").hidden = $("latency").hidden = true;
  }

  // What is known of the horizon, a line each.
  #facts(...lines) {
    $("spread").replaceChildren(...lines.filter(Boolean).map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  }

  #verdict(kind, text) {
    $("verdict").className = `verdict ${kind}`;
    $("verdict").textContent = text;
    delete $("verdict").dataset.ending;
  }
}

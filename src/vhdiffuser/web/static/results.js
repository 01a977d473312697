// The cards beside the scene: the horizon, and how the execution went.

import { drawRuler, drawTimeline } from "./charts.js";

const $ = (id) => document.getElementById(id);
const WHY = { deviation: "off the plan", ended: "the plan had ended", goal: "the goal had moved" };

export class Results {
  #moveCursor = () => {};
  #execution = null;

  // Nothing is known: of another environment, or before the first answer.
  clear() {
    $("length").textContent = "\u2013";
    $("spread").textContent = "\u00a0";
    $("ruler").replaceChildren();
    $("notes").hidden = $("deadline-note").hidden = true;
    this.shown = null;
    this.#verdict("", "\u00a0");
    this.#forget();
  }

  horizon(scene, horizon) {
    $("length").textContent = horizon.length;
    drawRuler($("ruler"), scene, horizon);
    const quantiles = horizon.quantile_spread === null ? "" : ` Predicted quantiles lie ${Math.round(horizon.quantile_spread)} steps apart.`;
    const chance = horizon.probability === null || horizon.reachable === false ? "" : ` Arrives with probability ${horizon.probability.toFixed(2)}, mostly after ${horizon.interval.join(" to ")} steps.`;
    $("spread").textContent = `${horizon.low} to ${horizon.high} for starts and goals within the tolerance.${quantiles}${chance}`;
    $("notes").hidden = horizon.notes.length === 0;
    $("notes").textContent = horizon.notes.join(" ");
    const late = horizon.deadline && !horizon.deadline.kept;
    $("deadline-note").hidden = !late;
    if (late) {
      const { limit, steps, risk, probability } = horizon.deadline;
      $("deadline-note").textContent = `${limit} steps are too few: ${steps} would do with a risk of ${Math.round(100 * risk)} %. By step ${limit} it arrives with probability ${probability.toFixed(2)}.`;
    }
    this.shown = { scene, horizon };
  }

  // A detour around boxes, or time to spare, makes a plan longer than the predicted horizon.
  plan(scene, plan) {
    const { horizon } = this.shown ?? {};
    if (horizon && plan.length !== horizon.length) {
      $("length").textContent = plan.length;
      $("spread").textContent = horizon.deadline
        ? `${horizon.length} would do; slowed down to arrive at step ${horizon.deadline.limit}.`
        : `${horizon.length} without what is to be avoided; the detour adds ${plan.length - horizon.length}.`;
      this.shown = { scene, horizon: { ...horizon, length: plan.length } };
      drawRuler($("ruler"), scene, this.shown.horizon);
    }
    $("timeline").classList.add("stale"); // until the new one is there
    $("replans").hidden = true;
    const commands = scene.commands.join(" and ");
    const unable = scene.commands.length ? `Not executed: the controller has no weights. Make them with ${commands}.` : "Not executed: there is data, but no simulator.";
    this.#verdict("wait", scene.executes ? "executing\u2026" : unable);
  }

  execution(execution) {
    this.#execution = execution;
    const replans = execution.plans.length - 1;
    $("timeline").classList.remove("stale");
    this.#moveCursor = drawTimeline($("timeline"), execution);
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
    if (this.#execution) this.#moveCursor = drawTimeline($("timeline"), this.#execution);
    if (this.shown) drawRuler($("ruler"), this.shown.scene, this.shown.horizon);
  }

  #forget() {
    this.#execution = null;
    this.#moveCursor = () => {};
    $("timeline").replaceChildren();
    $("replans").hidden = true;
  }

  #verdict(kind, text) {
    $("verdict").className = `verdict ${kind}`;
    $("verdict").textContent = text;
    delete $("verdict").dataset.ending;
  }
}

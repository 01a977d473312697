// VHD and fixed horizons on the same pair, as in Fig. 3 of the paper.

import { summary, Trials } from "./statistics.js";
import { View } from "./view.js";

const AVERAGED = 20; // random pairs per method

// The same random pairs with each method, in the background: a single pair proves nothing.
export function averagesOf(comparison) {
  const trials = new Trials(["vhd", "fh-h1", "fh-h2", "fh-h3"], AVERAGED, () => comparison.averages(trials.found.map(summary), AVERAGED), () => {});
  trials.changed();
  return trials;
}

export class Comparison {
  #panels = [];
  count = 0;

  constructor(section, scene) {
    this.section = section;
    this.scene = scene;
    section.querySelector("#comparison-note").textContent = `The scene opens with ${scene.opening}, not a hand-picked one. Below each picture: results on the same ${AVERAGED} random pairs, run in the background.`;
    const grid = section.querySelector("#methods");
    grid.replaceChildren();
    const titles = ["VHD", ...scene.horizons.map((length, number) => `FH-H${number + 1} = ${length}`)];
    this.#panels = titles.map((title) => {
      const figure = document.createElement("figure");
      figure.className = "method";
      const canvas = document.createElement("canvas");
      const caption = document.createElement("figcaption");
      const [name, verdict, weights, average] = ["strong", "span", "span", "span"].map((tag) => document.createElement(tag));
      name.textContent = title;
      average.className = "average";
      caption.append(name, verdict, weights, average);
      figure.append(canvas, caption);
      grid.append(figure);
      return { figure, name, verdict, weights, average, view: new View(canvas, scene, 0), reply: null };
    });
  }

  // Until the new pair has results, the old pictures are dimmed.
  wait() {
    for (const panel of this.#panels) {
      panel.figure.style.opacity = 0.45;
      panel.verdict.className = "";
      panel.verdict.textContent = "running\u2026";
    }
    this.count = 0;
  }

  refuse() {
    for (const panel of this.#panels.slice(this.count)) panel.verdict.textContent = "not run";
  }

  add(reply, shown, colours) {
    const panel = this.#panels[this.count];
    this.count += 1;
    panel.reply = { ...reply, goal: shown.goal };
    const { success, steps, plans, places } = reply.execution;
    const replans = plans.length - 1;
    panel.figure.style.opacity = 1;
    panel.verdict.className = success ? "good" : "bad";
    panel.verdict.textContent = `${success ? "\u2713 reached in" : "\u2717 missed after"} ${steps} steps` + (replans ? `, ${replans} replan${replans > 1 ? "s" : ""}` : "");
    panel.figure.title = reply.execution.explanation;
    panel.weights.textContent = reply.horizon === null
      ? `predicted ${plans.map((plan) => plan.length).slice(0, 4).join(", ")}${plans.length > 4 ? ", \u2026" : ""} states`
      : reply.weights === "own" ? "trained at this horizon" : "VHD\u2019s planner, forced to this length";
    panel.view.canvas.setAttribute("role", "img");
    panel.view.canvas.setAttribute("aria-label", `${reply.title}: ${panel.verdict.textContent}; ${places.length} places`);
    this.#draw(panel, colours);
  }

  // Results of the methods, in order, on random pairs so far.
  averages(summaries, count) {
    this.#panels.forEach((panel, number) => {
      const { trials, reached, steps } = summaries[number];
      panel.average.textContent = trials ? `Random pairs: ${reached} of ${trials} reached${steps === null ? "" : `, ${Math.round(steps)} steps on average`}${trials < count ? "\u2026" : ""}` : "Random pairs: waiting\u2026";
    });
  }

  redraw(colours) {
    for (const panel of this.#panels) this.#draw(panel, colours);
  }

  #draw(panel, colours) {
    const width = panel.figure.clientWidth;
    if (!width) return;
    panel.view.resize(width);
    const { reply } = panel;
    if (reply === null) {
      panel.view.draw({ goal: this.scene.goal, layers: [] }, colours);
      return;
    }
    const { places, plans } = reply.execution;
    panel.view.draw({
      goal: reply.goal,
      layers: [
        { places: plans[0].places, colour: "plan", line: 4.5, alpha: 0.45 },
        { places, colour: "path", line: 2 },
        { places: plans.slice(1).map((plan) => places[plan.step]), colour: "replan", dots: 2.5 },
        { places: [places[0]], colour: "start", dots: 5 },
        { places: [places[places.length - 1]], colour: "path", dots: 4 },
      ],
    }, colours);
  }
}

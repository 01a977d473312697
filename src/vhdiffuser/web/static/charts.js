// Two small charts: where the horizon lies in its range, and the plans of an execution over its steps.

import { niceStep } from "./field.js";

const SPACE = "http://www.w3.org/2000/svg";

function add(parent, name, attributes, text) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function chart(parent, height, label) {
  parent.replaceChildren();
  const width = Math.max(parent.clientWidth, 120);
  return [add(parent, "svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label }), width];
}

// L_hat on the scale from 0 to T_max with its spread, numbers below, and the fixed horizons H1..H3 below those.
export function drawRuler(parent, scene, horizon) {
  const label = `Predicted length ${horizon.length} on a scale up to ${scene.T_max}; nearby pairs ${horizon.low} to ${horizon.high}`;
  const [svg, width] = chart(parent, 56, label);
  const most = Math.max(scene.T_max, horizon.high, horizon.length);
  const x = (length) => 4 + ((width - 8) * length) / most;
  const anchor = (length) => (x(length) > width - 22 ? ["end", width] : length === 0 ? ["start", 2] : ["middle", x(length)]);
  add(svg, "line", { class: "axis", x1: x(0), x2: x(most), y1: 14, y2: 14 });
  add(svg, "rect", { class: "band", x: x(horizon.low), width: Math.max(x(horizon.high) - x(horizon.low), 2), y: 7, height: 14, rx: 3 });
  add(svg, "rect", { class: "mark", x: x(horizon.length) - 1.5, width: 3, y: 4, height: 20, rx: 1.5 });
  const step = niceStep(most / 6);
  for (let length = 0; length <= most; length += step) {
    add(svg, "line", { class: "tick", x1: x(length), x2: x(length), y1: 14, y2: 19 });
    const [side, at] = anchor(length);
    add(svg, "text", { class: "number", x: at, y: 34, "text-anchor": side }, length);
  }
  scene.horizons.forEach((length, number) => {
    add(svg, "line", { class: "fixed", x1: x(length), x2: x(length), y1: 8, y2: 20 });
    const [side, at] = anchor(length);
    add(svg, "text", { class: "fixed-name", x: at, y: 50, "text-anchor": side }, `H${number + 1} ${length}`);
  });
}

// One bar a plan: as long as its horizon, full as far as it was followed. Returns a function that moves the cursor.
export function drawTimeline(parent, execution) {
  const { plans, steps } = execution;
  const last = Math.max(steps, ...plans.map((plan) => plan.step + plan.length - 1), 1);
  const row = Math.max(Math.min(14, Math.floor(110 / plans.length)), 3);
  const height = row * plans.length + 18;
  const [svg, width] = chart(parent, height, `${plans.length} plan(s) over ${steps} control steps`);
  const room = 44; // for the labels
  const x = (step) => 3 + ((width - 6 - room) * step) / last;
  plans.forEach((plan, number) => {
    const followed = number + 1 < plans.length ? plans[number + 1].step : steps;
    const [y, bar] = [row * number, Math.max(row - 2, 2)];
    const end = plan.step + plan.length - 1;
    add(svg, "rect", { class: "bar", x: x(plan.step), width: Math.max(x(end) - x(plan.step), 1), y, height: bar, rx: 2 });
    add(svg, "rect", { class: "done", x: x(plan.step), width: Math.max(x(Math.min(followed, end)) - x(plan.step), 1), y, height: bar, rx: 2 });
    if (number) add(svg, "rect", { class: "start-mark", x: x(plan.step) - 1.5, width: 3, y, height: bar });
    if (row >= 11) add(svg, "text", { x: width - room + 8, y: y + bar - 1.5 }, `L ${plan.length}`);
  });
  add(svg, "text", { x: 3, y: height - 4 }, "0");
  add(svg, "text", { x: x(last), y: height - 4, "text-anchor": "end" }, `${last} steps`);
  const cursor = add(svg, "line", { class: "cursor", y1: -2, y2: height - 16 });
  return (step) => {
    cursor.setAttribute("x1", x(step));
    cursor.setAttribute("x2", x(step));
  };
}

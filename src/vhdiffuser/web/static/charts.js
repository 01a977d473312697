// Two small charts: the horizon within its range, and the plans of an execution over its steps.

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

// L_hat and its spread on a scale from 0 to T_max, with the fixed horizons H1..H3 below.
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
  let end = -Infinity; // of the last label
  scene.horizons.forEach((length, number) => {
    add(svg, "line", { class: "fixed", x1: x(length), x2: x(length), y1: 8, y2: 20 });
    const [side, at] = anchor(length);
    const label = x(length) - end > 50 ? `H${number + 1} ${length}` : `H${number + 1}`; // without its number if it would cover another
    end = x(length);
    add(svg, "text", { class: "fixed-name", x: at, y: 50, "text-anchor": side }, label);
  });
}

const MANY = 24; // plans beyond which a curve says more than bars

export const isMany = (execution) => execution.plans.length > MANY;

// The plans of an execution over its steps. Returns a function that moves the cursor.
export function drawTimeline(parent, execution) {
  return isMany(execution) ? drawHorizons(parent, execution) : drawBars(parent, execution);
}

// A vertical line at a control step.
function cursorOf(svg, x, top, bottom) {
  const cursor = add(svg, "line", { class: "cursor", y1: top, y2: bottom });
  return (step) => {
    cursor.setAttribute("x1", x(step));
    cursor.setAttribute("x2", x(step));
  };
}

// A quantity of each plan at the step at which it was made, on a scale from 0, with a number at its top.
function drawCurve(parent, execution, height, label, values, name, limit = 0) {
  const { plans, steps } = execution;
  const [svg, width] = chart(parent, height, label);
  const [left, foot, top] = [34, 16, 18];
  const most = Math.max(...values, limit) * 1.05;
  const x = (step) => left + ((width - left - 4) * step) / Math.max(steps, 1);
  const y = (value) => height - foot - ((height - foot - top) * value) / most;
  add(svg, "line", { class: "axis", x1: left, x2: width - 4, y1: y(0), y2: y(0) });
  const tick = niceStep(most / 3);
  for (let value = 0; value <= most; value += tick) add(svg, "text", { x: left - 5, y: y(value) + 4, "text-anchor": "end" }, Number(value.toFixed(6)));
  const points = plans.map((plan, number) => `${x(plan.step).toFixed(1)},${y(values[number]).toFixed(1)}`);
  add(svg, "polyline", { class: `curve ${name}`, points: points.join(" ") });
  add(svg, "text", { x: left, y: height - 3 }, "0");
  add(svg, "text", { x: width - 4, y: height - 3, "text-anchor": "end" }, `${steps} steps`);
  return { svg, x, y, left, right: width - 4, cursor: cursorOf(svg, x, top - 4, height - foot) };
}

// Horizons of many plans: a curve that falls by one a step where the robot does what was predicted.
function drawHorizons(parent, execution) {
  const lengths = execution.plans.map((plan) => plan.length);
  const label = `${lengths.length} plans over ${execution.steps} control steps: horizons of ${lengths[0]} to ${lengths[lengths.length - 1]} states`;
  const { svg, right, cursor } = drawCurve(parent, execution, 96, label, lengths, "horizons");
  add(svg, "text", { x: right, y: 10, "text-anchor": "end" }, "horizon, states");
  return cursor;
}

// How long each plan took to make, beside the control period, both in milliseconds.
export function drawLatencies(parent, execution, period) {
  const times = execution.plans.map((plan) => plan.seconds * 1000);
  const { svg, y, left, right, cursor } = drawCurve(parent, execution, 80, `Planning times up to ${Math.round(Math.max(...times))} ms`, times, "times", period);
  add(svg, "line", { class: "period", x1: left, x2: right, y1: y(period), y2: y(period) });
  add(svg, "text", { x: right, y: 10, "text-anchor": "end" }, "planning time, ms (dashed: a control step)");
  return cursor;
}

// One bar per plan: its length is the horizon, the filled part was executed.
function drawBars(parent, execution) {
  const { plans, steps } = execution;
  const last = Math.max(steps, ...plans.map((plan) => plan.step + plan.length - 1), 1);
  const row = Math.max(Math.min(14, Math.floor(110 / plans.length)), 3);
  const height = row * plans.length + 18;
  const [svg, width] = chart(parent, height, `${plans.length} plan(s) over ${steps} control steps`);
  const room = 44; // space for labels
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
  return cursorOf(svg, x, -2, height - 16);
}

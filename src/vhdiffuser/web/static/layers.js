// What is drawn over the scene, from back to front.

import { fanRamp } from "./field.js";

const MARKED = 80; // plans beyond which marks would hide the path

export const goalOf = (values, scene) => scene.goal_names.map((name) => values[scene.state_names.indexOf(name)]);

// `known` holds the newest replies, `at` the frames shown: {denoising (null: the plan), step}.
export function layersOf(known, scene, state, at, faded, colours) {
  const { plan, execution, next } = known;
  if (plan === null) return [];
  if (at.denoising !== null) {
    const knots = plan.denoising[at.denoising];
    return [{ places: knots, colour: "plan", line: 1, alpha: 0.5 }, { places: knots, colour: "plan", dots: 3 }];
  }
  const planned = plan.states.map((values) => goalOf(values, scene));
  const fan = state.fan && known.fan ? fanOf(known.fan, colours, faded) : [];
  if (execution === null) {
    const composed = state.route ? composedOf(plan, planned, faded) : [];
    return [...fan, ...composed, { places: planned, colour: "plan", line: 6, alpha: 0.45 * faded }, { places: planned, colour: "plan", dots: 1.6, alpha: faded }];
  }
  const made = execution.plans.filter((one) => one.step <= at.step);
  const current = made[made.length - 1];
  const result = [...fan];
  if (state.route) result.push(...(made.length > 1 && current.route.length ? routeOf(current.route, faded) : composedOf(plan, planned, faded)));
  if (made.length > 1) result.push({ places: planned, colour: "plan", line: 1.2, alpha: 0.35 * faded });
  result.push({ places: made.length > 1 ? current.places : planned, colour: "plan", line: 6, alpha: 0.45 * faded });
  if (next) result.push({ places: next.places, colour: "replan", line: 2.5, dash: [7, 5] });
  const behind = (state.fan || state.route) && at.step === execution.places.length - 1; // keep the requested overlay visible
  result.push({ places: execution.places.slice(0, at.step + 1), colour: "path", line: behind ? 1.3 : 2.6, alpha: (behind ? 0.7 : 1) * faded });
  const replans = made.length > MARKED ? [] : made.slice(1);
  const labels = replans.map((one) => (replans.length > 12 ? "" : `L ${one.length}`));
  result.push({ places: replans.map((one) => execution.places[one.step]), colour: "replan", diamonds: labels, alpha: faded });
  result.push({ places: [execution.places[at.step]], colour: "path", body: scene.radius || 0.08, alpha: faded });
  return result;
}

const routeOf = (route, faded) => (route.length ? [{ places: route, colour: "route", line: 2, dash: [2, 6], alpha: faded }, { places: route, colour: "route", dots: 2.6, alpha: faded }] : []);

// The route, and a wide band under each piece of the plan; overlaps are darker.
function composedOf(plan, planned, faded) {
  const bands = plan.pieces.map(([first, last], number) => ({ places: planned.slice(first, last + 1), colour: number % 2 ? "plan" : "route", line: 9, alpha: 0.22 * faded }));
  return [...bands, ...routeOf(plan.route, faded)];
}

// Candidates have the colour of their score, from the best to the 95th percentile: a few bad ones would make all others look alike.
export function scaleOf(fan) {
  const scores = fan.candidates.map((one) => one.score).sort((one, other) => one - other);
  return [scores[0], scores[Math.floor(0.95 * (scores.length - 1))]];
}

// The best candidate is drawn last, with an outline.
function fanOf(fan, colours, faded) {
  const table = fanRamp(colours);
  const [low, high] = scaleOf(fan);
  const colour = ({ score }) => `rgb(${table[Math.round(255 * Math.min((score - low) / Math.max(high - low, 1e-9), 1))].join(" ")})`;
  const order = fan.candidates.map((_, number) => number).filter((number) => number !== fan.best).sort((one, other) => fan.candidates[other].score - fan.candidates[one].score);
  const best = fan.candidates[fan.best];
  return [
    ...order.map((number) => ({ places: fan.candidates[number].places, stroke: colour(fan.candidates[number]), line: 1.2, alpha: 0.6 * faded })),
    { places: best.places, colour: "text", line: 6, alpha: faded },
    { places: best.places, stroke: colour(best), line: 3.5, alpha: faded },
  ];
}

// The page: its state, what is asked of the server when the state changes, and what is drawn.

import { get, Newest, post, stream } from "./api.js";
import { drawRuler, drawTimeline } from "./charts.js";
import { Comparison } from "./compare.js";
import { saveCsv, saveJson, savePng } from "./download.js";
import { ramp } from "./field.js";
import { fromHash, toHash } from "./link.js";
import { Player } from "./player.js";
import { Stage } from "./stage.js";
import { themeColours } from "./view.js";

const $ = (id) => document.getElementById(id);

const PLAIN = { seed: 0, protocol: "rp", field: false, compare: false }; // what a link leaves out
const state = { ...PLAIN, environment: "", start: [], goal: [], gamma: 1, risk: null, sampler: "", steps: 1 };
let scene = null;
let stage = null;
let comparison = null;
let colours = themeColours();
let known = { plan: null, execution: null }; // the newest answers
let moveCursor = () => {};
let refusedPlaces = [];
let asked = 0; // when the last change was made
let drawing = 0;
let comparisonDue = false;
let choice = 0; // counts the environments asked for

const denoising = new Player($("denoise-play"), $("denoise"), $("denoise-at"), {
  seconds: (frames) => Math.min(1 + frames * 0.12, 5),
  label: (frame, last) => (last ? (frame === last ? "plan" : frame === 0 ? "noise" : `step ${known.plan.frames[frame]} of ${known.plan.steps}`) : ""),
  changed: () => redraw(),
});
const playing = new Player($("execute-play"), $("execute"), $("execute-at"), {
  seconds: (steps) => Math.min(Math.max(steps * scene.control_dt, 1.5), 8),
  label: (frame, last) => (last ? `${frame} of ${last}` : ""),
  changed: () => {
    moveCursor(playing.frame);
    redraw();
  },
});

// ---- what the server is asked

const request = () => {
  const { environment, start, goal, gamma, risk, sampler, steps, seed } = state;
  return { environment, start, goal, gamma, risk, sampler, steps, seed };
};

const plans = new Newest(async (body, signal, shown) => {
  for await (const [event, value] of stream("api/stream", body, signal)) {
    if (event === "horizon") showHorizon(value);
    if (event === "plan") {
      showPlan(value, body);
      shown();
    }
    if (event === "execution") showExecution(value);
  }
  if (comparisonDue) {
    comparisonDue = false;
    comparisons.ask({ ...request(), protocol: state.protocol }, true);
  }
}, (error, body) => {
  refuse(error, body);
  comparison.refuse();
});

const fields = new Newest(async (body, signal) => {
  const views = stage.views;
  for (let number = 0; number < views.length; number += 1) {
    const field = await post("api/field", { ...body, view: number }, signal);
    if (!state.field) return;
    views[number].setField(field, colours);
    $("field-max").textContent = Math.round(Math.max(...field.steps));
    redraw();
  }
}, () => {}); // the plan's own request says what is wrong

const comparisons = new Newest(async (body, signal) => {
  comparison.wait();
  for await (const [event, value] of stream("api/compare", body, signal)) {
    if (event === "method") comparison.add(value, { goal: body.goal }, colours);
  }
}, () => comparison.refuse());

// Asks for everything that follows from the state. A comparison follows when the execution is there.
function ask(dropped = true) {
  asked = performance.now();
  if (dropped) history.replaceState(null, "", toHash(state, scene)); // browsers allow only so many of these
  plans.ask(scene.executes ? { ...request(), protocol: state.protocol } : request(), dropped);
  const { environment, start, goal } = state;
  if (state.field) fields.ask({ environment, start, goal }, dropped);
  comparisons.stop();
  comparisonDue = state.compare && scene.executes;
  if (comparisonDue) comparison.wait();
  redraw();
}

// ---- what is shown

function showHorizon(horizon) {
  clearRefusal();
  $("length").textContent = horizon.length;
  drawRuler($("ruler"), scene, horizon);
  const quantiles = horizon.quantile_spread === null ? "" : ` Predicted quantiles lie ${Math.round(horizon.quantile_spread)} steps apart.`;
  const chance = horizon.probability === null ? "" : ` Arrives with probability ${horizon.probability.toFixed(2)}, mostly after ${horizon.interval.join(" to ")} steps.`;
  $("spread").textContent = `${horizon.low} to ${horizon.high} for starts and goals within the tolerance.${quantiles}${chance}`;
  $("notes").hidden = horizon.notes.length === 0;
  $("notes").textContent = horizon.notes.join(" ");
}

function showPlan(plan, body) {
  known = { plan, execution: null, start: body.start, goal: body.goal };
  denoising.load(plan.frames.length);
  playing.load(0);
  $("verdict").className = "verdict wait";
  $("verdict").textContent = scene.executes ? "executing\u2026" : scene.commands.length ? `Not executed: the controller has no weights. Make them with ${scene.commands.join(" and ")}.` : "Not executed: there is data, but no simulator.";
  for (const id of ["save-json", "save-csv", "save-png"]) $(id).disabled = false;
  draw();
  const drawn = Math.round(performance.now() - asked);
  $("status").textContent = `${plan.length} states planned in ${Math.round(plan.seconds * 1000)} ms (${plan.sampler}, ${plan.steps} steps), drawn ${drawn} ms after the move.`;
  $("status").dataset.drawn = drawn;
}

function showExecution(execution) {
  known.execution = execution;
  const replans = execution.plans.length - 1;
  moveCursor = drawTimeline($("timeline"), execution);
  playing.load(execution.places.length);
  $("verdict").className = `verdict ${execution.success ? "good" : "bad"}`;
  $("verdict").textContent = (execution.success ? `\u2713 Goal reached in ${execution.steps} steps` : `\u2717 Goal missed after ${execution.steps} steps`) + (replans ? `, replanned ${replans}\u00d7.` : ".");
  $("replans").hidden = replans === 0;
  $("replans").querySelector("summary").textContent = `${replans} new horizon${replans > 1 ? "s" : ""}`;
  $("replans").querySelector("ol").replaceChildren(...execution.plans.slice(1).map((plan) => {
    const item = document.createElement("li");
    item.textContent = `step ${plan.step}: ${plan.length} states, ${plan.reason === "ended" ? "the plan had ended" : "off the plan"}`;
    return item;
  }));
}

function refuse(error, body) {
  $("refusal").textContent = error.message;
  $("refusal").hidden = false;
  const match = error.kind === "refused" ? error.message.match(/\b(start|goal)\b/) : null;
  refusedPlaces = match && body ? [match[1]] : [];
  redraw();
}

function clearRefusal() {
  $("refusal").hidden = true;
  refusedPlaces = [];
}

// The layers of the picture: denoising while its slider is not at the end, otherwise plan and execution.
function layers() {
  const { plan, execution } = known;
  if (plan === null) return [];
  const faded = refusedPlaces.length ? 0.35 : 1;
  if (!denoising.atEnd) {
    const knots = plan.denoising[denoising.frame];
    return [{ places: knots, colour: "plan", line: 1, alpha: 0.5 }, { places: knots, colour: "plan", dots: 3 }];
  }
  const planned = plan.states.map((values) => goalOf(values));
  if (execution === null) return [{ places: planned, colour: "plan", line: 2, alpha: faded }, { places: planned, colour: "plan", dots: 1.8, alpha: faded }];
  const step = playing.frame;
  const made = execution.plans.filter((one) => one.step <= step);
  const current = made[made.length - 1];
  const result = [];
  if (made.length > 1) result.push({ places: planned, colour: "plan", line: 1.2, alpha: 0.35 * faded });
  result.push({ places: made.length > 1 ? current.places : planned, colour: "plan", line: 2, alpha: 0.85 * faded });
  result.push({ places: execution.places.slice(0, step + 1), colour: "path", line: 2.6, alpha: faded });
  const replans = made.slice(1);
  const labels = replans.map((one) => (replans.length > 12 ? "" : `L ${one.length}`));
  result.push({ places: replans.map((one) => execution.places[one.step]), colour: "replan", diamonds: labels, alpha: faded });
  result.push({ places: [execution.places[step]], colour: "path", body: scene.radius || 0.08, alpha: faded });
  return result;
}

const goalOf = (values) => scene.goal_names.map((name) => values[scene.state_names.indexOf(name)]);

function draw() {
  cancelAnimationFrame(drawing);
  drawing = 0;
  if (stage) stage.draw({ goal: state.goal, layers: layers(), refused: refusedPlaces }, colours);
}

function redraw() {
  if (!drawing) drawing = requestAnimationFrame(draw);
}

// ---- the environment and the controls

async function choose(wanted) {
  $("status").textContent = `Loading ${wanted.environment}\u2026`;
  plans.stop();
  fields.stop();
  comparisons.stop();
  const number = (choice += 1);
  const described = await get(`api/environments/${encodeURIComponent(wanted.environment)}`);
  if (number !== choice) return; // another one has been chosen meanwhile
  scene = described;
  const fits = (place) => Array.isArray(place) && place.length === scene.goal_names.length;
  Object.assign(state, { gamma: scene.gamma, risk: null, sampler: scene.sampler, steps: scene.steps }, wanted);
  if (!scene.calibrated) state.risk = null;
  if (!scene.samplers.includes(state.sampler)) state.sampler = scene.sampler;
  state.start = fits(wanted.start) ? wanted.start : scene.start;
  state.goal = fits(wanted.goal) ? wanted.goal : scene.goal;
  known = { plan: null, execution: null };
  clearRefusal();
  stage = new Stage($("views"), scene, {
    places: () => state,
    placing: () => document.querySelector("input[name=placing]:checked").value,
    moved: (name, place, dropped) => {
      state[name] = place;
      ask(dropped);
    },
  });
  stage.resize();
  comparison = new Comparison($("comparison"), scene);
  fillControls();
  comparison.redraw(colours);
  $("status").textContent = `${scene.environment} is ready.`;
  ask();
}

function fillControls() {
  $("environment").value = state.environment;
  $("gamma").value = state.gamma;
  $("gamma-value").textContent = Number(state.gamma).toFixed(2);
  $("risk").value = state.risk ?? "";
  $("risk").disabled = !scene.calibrated;
  $("gamma").disabled = state.risk !== null;
  $("sampler").replaceChildren(...scene.samplers.map((name) => new Option(name)));
  $("sampler").value = state.sampler;
  $("steps").max = scene.max_steps;
  $("steps").value = state.steps;
  $("seed").value = state.seed;
  document.querySelector(`input[name=protocol][value=${state.protocol}]`).checked = true;
  $("compare").disabled = !scene.executes;
  showField();
  showComparison();
}

function showField() {
  $("field").setAttribute("aria-pressed", state.field);
  $("field-legend").hidden = !state.field;
  const context = $("ramp").getContext("2d");
  ramp(colours).forEach((colour, number) => {
    context.fillStyle = `rgb(${colour.join(" ")})`;
    context.fillRect((number * 96) / 256, 0, 1, 8);
  });
  if (!state.field) for (const view of stage.views) view.setField(null);
}

function showComparison() {
  $("compare").setAttribute("aria-pressed", state.compare);
  $("comparison").hidden = !state.compare;
  if (state.compare) comparison.redraw(colours);
}

function change(values) {
  Object.assign(state, values);
  fillControls();
  ask();
}

function changeNumber(id, low, high) {
  $(id).addEventListener("change", () => {
    const value = Math.round(Number($(id).value));
    if ($(id).value === "" || !(value >= low) || !(value <= high())) {
      refuse({ message: `${id}: a whole number from ${low} to ${high()} is needed.` });
      $(id).value = state[id];
    } else change({ [id]: value });
  });
}

async function randomPair() {
  const seed = Math.floor(Math.random() * 2 ** 31);
  change(await get(`api/environments/${state.environment}/instance?seed=${seed}`));
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    $("status").textContent = "The link is in the clipboard.";
  } catch {
    $("status").textContent = "Copy the address of this page: it holds the scene.";
  }
}

function connect() {
  $("environment").addEventListener("change", () => choose(kept($("environment").value)).catch(refuse));
  $("gamma").addEventListener("input", () => {
    state.gamma = Number($("gamma").value);
    $("gamma-value").textContent = state.gamma.toFixed(2);
    ask(false);
  });
  $("gamma").addEventListener("change", () => ask());
  $("risk").addEventListener("change", () => change({ risk: Number($("risk").value) || null }));
  $("sampler").addEventListener("change", () => change({ sampler: $("sampler").value }));
  changeNumber("steps", 1, () => scene.max_steps);
  changeNumber("seed", 0, () => 2 ** 31 - 1);
  $("field").addEventListener("click", () => change({ field: !state.field }));
  for (const input of document.querySelectorAll("input[name=protocol]")) input.addEventListener("change", () => change({ protocol: input.value }));
  $("compare").addEventListener("click", () => change({ compare: !state.compare }));
  $("random").addEventListener("click", () => randomPair().catch(refuse));
  $("link").addEventListener("click", copyLink);
  $("save-json").addEventListener("click", () => saveJson(known.plan));
  $("save-csv").addEventListener("click", () => saveCsv(known.plan));
  $("save-png").addEventListener("click", () => savePng(known.plan, stage.views, known.start, known.goal, colours));
  const keys = { " ": () => playing.toggle(), d: () => denoising.toggle(), f: () => $("field").click(), c: () => $("compare").click(), r: () => $("random").click(), p: () => change({ protocol: state.protocol === "ss" ? "rp" : "ss" }) };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !scene) return;
    if (event.target.closest("input, select, summary") || (event.key === " " && event.target.closest("button:not(.handle), a"))) return;
    const action = keys[event.key.toLowerCase()];
    if (action) {
      event.preventDefault();
      action();
    }
  });
  window.addEventListener("hashchange", () => choose({ ...PLAIN, environment: state.environment, ...fromHash(location.hash) }).catch(refuse));
  new ResizeObserver(() => {
    if (!stage) return;
    stage.resize();
    if (known.execution) moveCursor = drawTimeline($("timeline"), known.execution);
    moveCursor(playing.frame);
    comparison.redraw(colours);
    draw();
  }).observe($("views"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    colours = themeColours();
    if (!stage) return;
    for (const view of stage.views) if (view.field) view.setField(view.field, colours);
    showField();
    comparison.redraw(colours);
    draw();
  });
}

// What carries over to another environment: not its places, nor its planner's own settings.
const kept = (environment) => ({ environment, seed: state.seed, protocol: state.protocol, field: state.field, compare: state.compare });

async function begin() {
  connect();
  const environments = await get("api/environments");
  $("environment").replaceChildren(...environments.map(({ name, ready, commands }) => {
    const option = new Option(ready ? name : `${name} (not ready)`, name);
    if (!ready) option.title = commands.join(" && ");
    option.disabled = !ready;
    return option;
  }));
  const missing = environments.filter((one) => !one.ready);
  $("missing").hidden = missing.length === 0;
  $("missing").querySelector("summary").textContent = `${missing.length} environment${missing.length > 1 ? "s are" : " is"} not ready: what to run`;
  $("missing").querySelector("ul").replaceChildren(...[...new Set(missing.flatMap((one) => one.commands))].map((command) => {
    const item = document.createElement("li");
    item.append(Object.assign(document.createElement("code"), { textContent: command }));
    return item;
  }));
  const first = environments.find((one) => one.name === "maze2d-large" && one.ready) ?? environments.find((one) => one.ready);
  if (!first && !location.hash) throw new Error(`No environment is ready. Run ${environments[0].commands.join(" and ")}, then start with --source trained.`);
  await choose({ ...PLAIN, environment: first?.name ?? "", ...fromHash(location.hash) });
}

begin().catch((error) => {
  $("status").textContent = "Nothing to show.";
  refuse(error);
});

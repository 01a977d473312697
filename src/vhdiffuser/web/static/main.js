// The page: its state, what is asked of the server when the state changes, and what is drawn.

import { get, Newest, post, stream } from "./api.js";
import { averagesOf, Comparison } from "./compare.js";
import { connectControls, fillControls, listEnvironments } from "./controls.js";
import { blocked } from "./free.js";
import { fromHash, toHash } from "./link.js";
import { GoalMoves } from "./moving.js";
import { Obstacles } from "./obstacles.js";
import { drawPicture } from "./picture.js";
import { Places } from "./places.js";
import { Player } from "./player.js";
import { Results } from "./results.js";
import { Space } from "./space.js";
import { Stage } from "./stage.js";
import { StatisticsCard } from "./statistics.js";
import { Tour } from "./tour.js";
import { themeColours } from "./view.js";

const $ = (id) => document.getElementById(id);

// What a link leaves out.
const plain = () => ({ seed: 0, protocol: "rp", field: false, compare: false, route: false, fan: false, space: false, boxes: [], cells: [], wallsKnown: true, deadline: null, arrive: "by" });
const state = { ...plain(), environment: "", start: [], goal: [], gamma: 1, risk: null, sampler: "", steps: 1 };
let scene = null;
let stage = null;
let space = null;
let places = null;
let obstacles = null;
let comparison = null;
let statistics = null;
let averages = null;
let colours = themeColours();
let known = { plan: null, execution: null }; // the newest answers
let refusedPlaces = [];
let asked = 0; // when the last change was made
let drawing = 0;
let comparisonDue = false;
let choice = 0; // counts the environments asked for

const results = new Results();
const tour = new Tour($("tour"));
const denoising = new Player($("denoise-play"), $("denoise"), $("denoise-at"), {
  seconds: (frames) => Math.min(1 + frames * 0.12, 5),
  label: (frame, last) => (last ? (frame === last ? "plan" : frame === 0 ? "noise" : `step ${known.plan.frames[frame]} of ${known.plan.steps}`) : ""),
  changed: () => redraw(),
});
const playing = new Player($("execute-play"), $("execute"), $("execute-at"), {
  seconds: (steps) => Math.min(Math.max(steps * scene.control_dt, 1.5), 8),
  label: (frame, last) => (last ? `${frame} of ${last}` : ""),
  changed: () => {
    results.at(playing.frame);
    redraw();
  },
});

// ---- what the server is asked

const settings = () => {
  const { environment, gamma, risk, sampler, steps, seed } = state;
  return { environment, gamma, risk, sampler, steps, seed, ...obstacles.request };
};
const pair = () => ({ ...settings(), start: state.start, goal: state.goal });
const request = () => ({ ...pair(), ...(state.deadline === null ? {} : { deadline: state.deadline, arrive: state.arrive }) });
const execution = () => ({ ...request(), protocol: state.protocol, ...(space ? { skeleton: true } : {}) });

const plans = new Newest(async (body, signal, shown) => {
  for await (const [event, value] of stream("api/stream", body, signal)) {
    if (event === "horizon") showHorizon(value);
    if (event === "plan") {
      showPlan(value, body);
      shown();
    }
    if (event === "execution") showExecution(value);
  }
  background(false);
  if (state.fan) fans.ask(pair(), true);
  if (comparisonDue) {
    comparisonDue = false;
    comparisons.ask({ ...pair(), protocol: state.protocol }, true);
  }
}, (error, body) => {
  refuse(error, body);
  comparison.refuse();
  background(false);
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

const fans = new Newest(async (body, signal) => {
  const fan = await post("api/candidates", body, signal);
  const scores = fan.candidates.map((one) => one.score);
  known.fan = fan;
  $("fan-low").textContent = Math.round(Math.min(...scores));
  $("fan-high").textContent = Math.round(Math.max(...scores));
  $("fan-count").textContent = scores.length;
  redraw();
}, (error) => refuse(error));

const comparisons = new Newest(async (body, signal) => {
  comparison.wait();
  for await (const [event, value] of stream("api/compare", body, signal)) {
    if (event === "method") comparison.add(value, { goal: body.goal }, colours);
  }
  if (!averages.running && !averages.done) averages.run({ ...settings(), protocol: state.protocol });
}, () => comparison.refuse());

const goals = new GoalMoves({
  state, playing, results, pair, execution, background, draw,
  scene: () => scene,
  known: () => known,
  blocked: (goal) => blocked("goal", goal, scene, obstacles.walls.walls, state.boxes),
  showHorizon, showExecution, clearRefusal,
  refuse: (error, places = []) => {
    refuse(error);
    refusedPlaces = places;
  },
});

// Asks for everything that follows from the state. A comparison follows when the execution is there.
function ask(dropped = true) {
  asked = performance.now();
  goals.forget();
  known.next = known.fan = null;
  fans.stop();
  comparisons.stop();
  if (dropped) history.replaceState(null, "", toHash(state, scene)); // browsers allow only so many of these
  const { walls } = obstacles.walls;
  for (const name of ["start", "goal"]) {
    const why = blocked(name, state[name], scene, walls, state.boxes);
    if (!why) continue;
    plans.stop();
    fields.stop();
    refuse({ kind: "refused", message: why }, request());
    background(false);
    return;
  }
  background(true);
  plans.ask(scene.executes ? execution() : request(), dropped);
  const { environment, start, goal } = state;
  const map = obstacles.rows;
  if (state.field) fields.ask({ environment, start, goal, ...(map ? { map } : {}) }, dropped);
  comparisonDue = state.compare && scene.executes;
  if (comparisonDue) comparison.wait();
  redraw();
}

// Random pairs are executed in the background: not while somebody waits for something else.
function background(busy) {
  statistics?.trials.pause(busy);
  averages?.pause(busy);
}

function moved(name, place, dropped) {
  if (name === "goal" && known.execution && (playing.isPlaying || goals.moving)) goals.move(place, dropped);
  else {
    state[name] = place;
    ask(dropped);
  }
}

// ---- what is shown

function showHorizon(horizon) {
  clearRefusal();
  results.horizon(scene, horizon);
}

function showPlan(plan, body) {
  known = { plan, execution: null, next: null, fan: known.fan, start: body.start, goal: body.goal };
  denoising.load(plan.frames.length);
  playing.load(0);
  results.plan(scene, plan);
  allowSaving(true);
  draw();
  const drawn = Math.round(performance.now() - asked);
  $("status").textContent = `${plan.length} states planned in ${Math.round(plan.seconds * 1000)} ms (${plan.sampler}, ${plan.steps} steps), drawn ${drawn} ms after the move.`;
  $("status").dataset.drawn = drawn;
}

function allowSaving(allowed) {
  for (const id of ["save-json", "save-csv", "save-png"]) $(id).disabled = !allowed;
}

function showExecution(value, at) {
  known.execution = value;
  known.next = null;
  results.execution(value);
  playing.load(value.places.length, at);
}

function refuse(error, body) {
  if (error.kind === "deadline") {
    refuseDeadline();
    return;
  }
  $("refusal").textContent = error.message;
  $("refusal").hidden = false;
  const match = error.kind === "refused" ? error.message.match(/\b(start|goal)\b/) : null;
  refusedPlaces = match && body ? [match[1]] : [];
  if (body) {
    playing.load(0);
    known.execution = null;
    results.refused(error.message);
  }
  redraw();
}

// The horizon has come, and says beside the control how many steps would do.
function refuseDeadline() {
  known = { plan: null, execution: null };
  denoising.load(0);
  playing.load(0);
  allowSaving(false);
  results.refused(`the deadline is too early; ${results.shown.horizon.deadline.steps} steps would do.`);
  $("status").textContent = `No plan arrives by step ${state.deadline} with the accepted risk.`;
  redraw();
}

function clearRefusal() {
  $("refusal").hidden = true;
  refusedPlaces = [];
}

function draw() {
  cancelAnimationFrame(drawing);
  drawing = 0;
  if (!stage) return;
  const at = { denoising: denoising.atEnd ? null : denoising.frame, step: playing.frame };
  drawPicture({ scene, state, stage, space, obstacles, known, refusedPlaces, colours }, at, goals.passed);
  places.show(state);
}

function redraw() {
  if (!drawing) drawing = requestAnimationFrame(draw);
}

// ---- the environment

async function choose(wanted) {
  $("status").textContent = `Loading ${wanted.environment}\u2026`;
  goals.forget();
  for (const newest of [plans, fields, fans, comparisons]) newest.stop();
  statistics?.trials.stop();
  averages?.stop();
  const number = (choice += 1);
  const described = await get(`api/environments/${encodeURIComponent(wanted.environment)}`);
  if (number !== choice) return; // another one has been chosen meanwhile
  scene = described;
  const fits = (place) => Array.isArray(place) && place.length === scene.goal_names.length;
  Object.assign(state, { gamma: scene.gamma, risk: null, sampler: scene.sampler, steps: scene.steps }, wanted);
  if (!scene.calibrated) state.risk = state.deadline = null;
  if (!scene.samplers.includes(state.sampler)) state.sampler = scene.sampler;
  state.start = fits(wanted.start) ? wanted.start : scene.start;
  state.goal = fits(wanted.goal) ? wanted.goal : scene.goal;
  known = { plan: null, execution: null };
  clearRefusal();
  results.clear();
  denoising.load(0);
  playing.load(0);
  obstacles = new Obstacles(scene, state, () => changeSettings());
  places = new Places($("places"), $("pointer"), scene, moved);
  stage = new Stage($("views"), scene, {
    places: () => state,
    placing: () => document.querySelector("input[name=placing]:checked").value,
    moved,
    drawn: (kind, view, from, to, dropped) => {
      obstacles.drawn(kind, view, from, to, dropped);
      redraw();
    },
    pointed: (view, x, y) => (view ? places.pointer(view, x, y, obstacles.walls.walls, obstacles.boxes) : places.clearPointer()),
  });
  stage.resize();
  comparison = new Comparison($("comparison"), scene);
  averages = averagesOf(comparison);
  statistics = new StatisticsCard(() => ({ ...settings(), protocol: state.protocol }), ({ start, goal }) => change({ start, goal }));
  $("trials-card").hidden = !scene.executes;
  showSwitches();
  comparison.redraw(colours);
  $("status").textContent = `${scene.environment} is ready. It opens on ${scene.opening}.`;
  ask();
}

// What the switches add to the page.
function showSwitches() {
  fillControls(scene, state, colours);
  if (!state.field) for (const view of stage.views) view.setField(null);
  const spatial = state.space && scene.spatial;
  $("space").hidden = !spatial;
  if (spatial && space?.scene !== scene) space = new Space($("space"), scene, redraw);
  if (!spatial) space = null;
  space?.resize();
  if (!state.compare) averages.stop();
  if (state.compare) comparison.redraw(colours);
}

function change(values) {
  Object.assign(state, values);
  showSwitches();
  ask();
}

// Other than start and goal: what was found for random pairs no longer holds.
function changeSettings(values = {}) {
  statistics.outdate();
  averages.forget();
  change(values);
}

// As the benchmark draws them; not in what was added to the scene.
async function randomPair() {
  const isBlocked = (pair) => ["start", "goal"].some((name) => blocked(name, pair[name], scene, obstacles.walls.walls, state.boxes));
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const pair = await get(`api/environments/${encodeURIComponent(state.environment)}/instance?seed=${seed}`);
    if (isBlocked(pair)) continue;
    change(pair);
    return;
  }
}

// What carries over to another environment: not its places, nor its planner's own settings.
const kept = (environment) => ({ ...plain(), environment, seed: state.seed, protocol: state.protocol, field: state.field, compare: state.compare, route: state.route, fan: state.fan, space: state.space });

function resize() {
  if (!stage) return;
  stage.resize();
  space?.resize();
  results.resize();
  results.at(playing.frame);
  comparison.redraw(colours);
  draw();
}

function recolour() {
  colours = themeColours();
  if (!stage) return;
  for (const view of stage.views) if (view.field) view.setField(view.field, colours);
  showSwitches();
  comparison.redraw(colours);
  draw();
}

connectControls({
  state, playing, denoising, tour, change, changeSettings, refuse, resize, recolour,
  scene: () => scene,
  known: () => known,
  pictures: () => ({
    environment: scene.environment,
    pictures: [...stage.views.map((view) => ({ canvas: view.canvas, view })), ...(space ? [{ canvas: space.canvas }] : [])],
    start: state.start,
    goal: state.goal,
    colours,
  }),
  choose: (environment) => choose(kept(environment)).catch(refuse),
  gamma: (value, dropped) => {
    state.gamma = value;
    if (dropped) changeSettings();
    else ask(false);
  },
  randomPair,
  followLink: () => choose({ ...plain(), environment: state.environment, ...fromHash(location.hash) }).catch(refuse),
});

async function begin() {
  const first = await listEnvironments();
  await choose({ ...plain(), environment: first, ...fromHash(location.hash) });
  tour.beginOnFirstVisit();
}

begin().catch((error) => {
  $("status").textContent = "Nothing to show.";
  refuse(error);
});

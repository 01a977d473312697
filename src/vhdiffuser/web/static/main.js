// The page: its parts, and how they react to a new environment, position or setting.

import { get } from "./api.js";
import { Answers } from "./answers.js";
import { averagesOf, Comparison } from "./compare.js";
import { connectControls, fillControls, listEnvironments } from "./controls.js";
import { fromHash } from "./link.js";
import { Model, plain } from "./model.js";
import { GoalMoves } from "./moving.js";
import { Obstacles } from "./obstacles.js";
import { Picture } from "./picture.js";
import { Places } from "./places.js";
import { Questions } from "./questions.js";
import { StatisticsCard } from "./statistics.js";
import { Tour } from "./tour.js";

const $ = (id) => document.getElementById(id);

const model = new Model();
const { state } = model;
let places = null;
let comparison = null;
let statistics = null;
let averages = null;
let choice = 0; // number of environments requested so far

const picture = new Picture(model, () => places.show(state));
const answers = new Answers(model, picture);
const questions = new Questions(model, answers, picture, background);
const goals = new GoalMoves(model, answers, picture, background);
const tour = new Tour($("tour"));
const refuse = (error) => answers.refuse(error);

// The scene shown stays selected, or none, so that every other can be chosen.
function refuseScene(error) {
  $("environment").value = model.scene?.environment ?? "";
  $("status").textContent = model.scene ? "" : "Nothing to show: choose an environment.";
  refuse(error);
}


// Random pairs run in the background, but not while the user waits for something else.
function background(busy) {
  statistics?.trials.pause(busy);
  averages?.pause(busy);
}

function ask(dropped = true) {
  goals.forget();
  questions.ask(dropped);
}

function moved(name, place, dropped) {
  if (name === "goal" && goals.isUnderWay) {
    goals.move(place, dropped);
    return;
  }
  state[name] = place;
  ask(dropped);
}

async function choose(wanted) {
  $("status").textContent = `Loading ${wanted.environment}\u2026`;
  goals.forget();
  questions.stop();
  statistics?.trials.stop();
  averages?.stop();
  const number = (choice += 1);
  const scene = await get(`api/environments/${encodeURIComponent(wanted.environment)}`);
  if (number !== choice) return; // another environment has been chosen meanwhile
  document.querySelector("main").inert = false;
  model.enter(scene, wanted);
  answers.clear();
  model.obstacles = new Obstacles(scene, state, () => changeSettings());
  places = new Places($("places"), $("pointer"), scene, moved);
  picture.enter({ placing: () => document.querySelector("input[name=placing]:checked").value, moved, drawn, pointed });
  questions.comparison = comparison = new Comparison($("comparison"), scene);
  questions.averages = averages = averagesOf(comparison);
  statistics = new StatisticsCard(() => model.trials, ({ start, goal }) => change({ start, goal }));
  $("trials-card").hidden = !scene.executes;
  showSwitches();
  comparison.redraw(picture.colours);
  $("status").textContent = `${scene.environment} is ready. It opens with ${scene.opening}.`;
  ask();
}

function drawn(kind, view, from, to, dropped) {
  model.obstacles.drawn(kind, view, from, to, dropped);
  picture.redraw();
}

function pointed(view, x, y) {
  if (view) places.pointer(view, x, y, model.obstacles.walls.walls, model.obstacles.boxes);
  else places.clearPointer();
}

function showSwitches() {
  fillControls(model.scene, state, picture.colours);
  picture.show();
  if (!state.compare) averages.stop();
  else comparison.redraw(picture.colours);
}

function change(values) {
  Object.assign(state, values);
  showSwitches();
  ask();
}

// Settings other than start and goal: results on random pairs are no longer valid.
function changeSettings(values = {}) {
  statistics.outdate();
  averages.forget();
  change(values);
}

// From the benchmark's distribution, outside added boxes and walls.
async function randomPair() {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const pair = await get(`api/environments/${encodeURIComponent(state.environment)}/instance?seed=${seed}`);
    if (model.blocked("start", pair.start) || model.blocked("goal", pair.goal)) continue;
    change(pair);
    return;
  }
}

function resize() {
  if (!picture.stage) return;
  picture.resize();
  answers.results.resize();
  answers.results.at(answers.playing.frame);
  comparison.redraw(picture.colours);
}

function recolour() {
  picture.recolour();
  if (picture.stage) showSwitches();
}

connectControls({
  model, answers, tour, change, changeSettings, refuse, resize, recolour, randomPair,
  pictures: () => picture.canvases,
  choose: (environment) => choose(model.kept(environment)).catch(refuseScene),
  gamma: (value, dropped) => {
    state.gamma = value;
    if (dropped) changeSettings();
    else ask(false);
  },
  followLink: () => choose({ ...plain(), environment: state.environment, ...fromHash(location.hash) }).catch(refuseScene),
});

// For scripts and tests: what the page knows and has drawn, and page coordinates of points.
window.vhd = {
  get scene() { return model.scene; },
  get state() { return state; },
  get known() { return model.known; },
  get drawn() { return picture.drawn; },
  get space() { return picture.space?.view ?? null; },
  onPage(place, view = 0) {
    const shown = picture.stage.views[view];
    const box = shown.canvas.getBoundingClientRect();
    const [x, y] = shown.at(place);
    return [box.left + x, box.top + y];
  },
};

async function begin() {
  const first = await listEnvironments();
  await choose({ ...plain(), environment: first, ...fromHash(location.hash) });
  tour.beginOnFirstVisit();
}

begin().catch(refuseScene);

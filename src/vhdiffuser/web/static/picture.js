// The whole picture: the views with all that is over them, the legend's entries that depend on it, and the robot in space.

import { goalOf, layersOf } from "./layers.js";

const $ = (id) => document.getElementById(id);

// `page` is what there is to show, `at` the frames of denoising (null: the plan) and execution that are shown.
export function drawPicture(page, at, oldGoals) {
  const { scene, state, stage, space, obstacles, known, refusedPlaces, colours } = page;
  const faded = refusedPlaces.length ? 0.35 : 1;
  const { walls, boxes } = obstacles;
  const left = oldGoals.filter((goal) => goal.some((value, dim) => value !== state.goal[dim]));
  const layers = layersOf(known, scene, state, at, faded, colours);
  stage.draw({ goal: state.goal, oldGoals: left, walls, boxes, layers, refused: refusedPlaces }, colours);
  $("route-none").hidden = !known.plan || known.plan.route.length > 0;
  $("box-legend").hidden = !boxes.length;
  $("wall-legend").hidden = !walls.added.length && !walls.removed.length;
  if (!space) return;
  const plan = known.plan?.states.map((values) => goalOf(values, scene)) ?? [];
  const path = known.execution?.places.slice(0, at.step + 1) ?? [];
  space.draw({ walls: walls.walls, boxes, goal: state.goal, plan, path, skeleton: known.execution?.skeleton, step: at.step }, colours);
}

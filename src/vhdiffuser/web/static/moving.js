// The goal moves while the robot is under way: a plan from where it is, at once; then, when the goal is dropped, the rest
// of the execution, which the server repeats from its start with all moves of the goal so far.

import { Newest, post, stream } from "./api.js";
import { goalOf } from "./layers.js";

const MOST = 16;

export class GoalMoves {
  #moves = []; // [{step, goal}] of the execution shown
  #first = null; // the goal before them
  moving = false; // whether the goal is being dragged

  constructor(page) {
    this.page = page;
    this.replans = new Newest((asked, signal, shown) => this.#replan(asked, signal, shown), (error) => {
      page.known().next = null;
      page.refuse(error);
      page.background(false);
    });
  }

  // Goals that were left for another.
  get passed() {
    return this.#first === null ? [] : [this.#first, ...this.#moves.map((move) => move.goal)];
  }

  forget() {
    this.replans.stop();
    this.#moves = [];
    this.#first = null;
    this.moving = false;
  }

  move(goal, dropped) {
    const { page } = this;
    this.#first ??= page.state.goal;
    this.moving = !dropped;
    page.state.goal = goal;
    const why = this.#moves.length < MOST ? page.blocked(goal) : `The goal can be moved ${MOST} times in one execution.`;
    if (why) {
      this.replans.stop();
      page.refuse({ kind: "refused", message: why }, ["goal"]);
      page.background(false);
      return;
    }
    page.clearRefusal();
    page.background(true);
    const step = Math.max(Math.min(page.playing.frame, page.playing.last - 1), 1);
    if (dropped) page.playing.pause();
    this.replans.ask({ goal, step, dropped, since: performance.now() }, dropped);
    page.draw();
  }

  async #replan({ goal, step, dropped, since }, signal, shown) {
    const { page } = this;
    const known = page.known();
    const start = known.execution.states[step] ?? known.execution.places[step];
    for await (const [event, value] of stream("api/stream", { ...page.pair(), start, goal }, signal)) {
      if (event === "horizon") page.showHorizon(value);
      if (event !== "plan") continue;
      known.next = { places: value.states.map((values) => goalOf(values, page.scene())) };
      page.draw();
      const latency = Math.round(performance.now() - since);
      page.results.moved(`Goal moved at step ${step}: a new plan of ${value.length} states after ${latency} ms (${Math.round(value.seconds * 1000)} ms to plan).`);
      shown();
    }
    if (!dropped) return;
    const moves = [...this.#moves, { step, goal }];
    page.showExecution(await post("api/execute", { ...page.execution(), goal: this.#first, moves }, signal), step);
    this.#moves = moves;
    page.playing.play();
    page.background(false);
  }
}

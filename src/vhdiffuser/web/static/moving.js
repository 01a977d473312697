// The goal moves during the execution: plan at once from the robot's position; when the goal is dropped, the server
// repeats the execution from its start with all goal moves so far.

import { Newest, post, stream } from "./api.js";
import { goalOf } from "./layers.js";

const MOST = 16;

export class GoalMoves {
  #moves = []; // [{step, goal}] of the execution shown
  #first = null; // the goal before them
  #dragged = false;
  #pending = false; // whether an execution towards the new goal is on its way

  constructor(model, answers, picture, background) {
    Object.assign(this, { model, answers, picture, background });
    this.replans = new Newest((asked, signal, shown) => this.#replan(asked, signal, shown), (error) => {
      model.known.next = null;
      this.#pending = false;
      answers.refuse(error);
      background(false);
    });
  }

  forget() {
    this.replans.stop();
    this.#moves = [];
    this.#first = null;
    this.#pass();
    this.#dragged = this.#pending = false;
  }

  // Whether moving the goal now is a move during the execution.
  get isUnderWay() {
    return this.model.known.execution !== null && (this.answers.playing.isPlaying || this.#dragged || this.#pending);
  }

  move(goal, dropped) {
    const { model, answers } = this;
    this.#first ??= model.state.goal;
    this.#pass();
    this.#dragged = !dropped;
    this.#pending = false;
    model.state.goal = goal;
    answers.playing.pause(); // the robot waits for its new plan
    const why = this.#moves.length < MOST ? model.blocked("goal") : `The goal can be moved ${MOST} times in one execution.`;
    if (why) {
      this.replans.stop();
      answers.say(why, ["goal"]);
      this.background(false);
      return;
    }
    answers.clearRefusal();
    this.background(true);
    const step = Math.max(Math.min(answers.playing.frame, answers.playing.last - 1), 1);
    this.#pending = dropped;
    this.replans.ask({ goal, step, dropped, since: performance.now() }, dropped);
    this.picture.draw();
  }

  // Shows earlier goals.
  #pass() {
    this.model.passed = this.#first === null ? [] : [this.#first, ...this.#moves.map((move) => move.goal)];
  }

  async #replan({ goal, step, dropped, since }, signal, shown) {
    const { model, answers } = this;
    const { known } = model;
    const start = known.execution.states[step] ?? known.execution.places[step];
    for await (const [event, value] of stream("api/stream", { ...model.pair, start, goal }, signal)) {
      if (event === "horizon") answers.horizon(value);
      if (event !== "plan") continue;
      known.next = { places: value.states.map((values) => goalOf(values, model.scene)) };
      this.picture.draw();
      const latency = Math.round(performance.now() - since);
      answers.results.moved(`Goal moved at step ${step}: a new plan of ${value.length} states after ${latency} ms (${Math.round(value.seconds * 1000)} ms to plan).`);
      shown();
    }
    if (!dropped) return;
    const moves = [...this.#moves, { step, goal }];
    answers.execution(await post("api/execute", { ...model.execution, goal: this.#first, moves }, signal), step);
    this.#moves = moves;
    this.#pending = false;
    this.#pass();
    answers.playing.play();
    this.background(false);
  }
}

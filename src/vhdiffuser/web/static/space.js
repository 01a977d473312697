// 3-D view of the robot as a skeleton of lines; drag, wheel and arrow keys move the camera.

const NEAR = 0.05;
const LIGHT = [-0.4, -0.5, 0.77];

const minus = (a, b) => a.map((value, dim) => value - b[dim]);
const dot = (a, b) => a.reduce((sum, value, dim) => sum + value * b[dim], 0);

const apart = ([x0, y0], [x1, y1]) => Math.hypot(x1 - x0, y1 - y0);

export class Space {
  #turn = 0.6; // about the vertical
  #tilt = 0.55; // above the horizon
  #zoom = 1;

  constructor(figure, scene, changed) {
    this.figure = figure;
    this.canvas = figure.querySelector("canvas");
    this.scene = scene;
    this.changed = changed;
    this.isArm = scene.goal_names.length > 2;
    this.canvas.setAttribute("aria-label", `${scene.environment} in 3-D. Arrow keys rotate, + and - zoom.`);
    this.#connect();
  }

  #connect() {
    const { canvas } = this;
    const down = new Map(); // pointers by id: one rotates, two zoom
    canvas.onpointerdown = (event) => {
      event.preventDefault();
      canvas.focus({ preventScroll: true });
      canvas.setPointerCapture(event.pointerId);
      down.set(event.pointerId, [event.clientX, event.clientY]);
    };
    canvas.onpointermove = (move) => {
      if (!down.has(move.pointerId)) return;
      const before = [...down.values()];
      const [x, y] = down.get(move.pointerId);
      down.set(move.pointerId, [move.clientX, move.clientY]);
      if (down.size === 1) this.#rotate(-(move.clientX - x) / 140, (move.clientY - y) / 140);
      else this.#magnify(apart(...down.values()) / Math.max(apart(...before), 1));
    };
    canvas.onpointerup = canvas.onpointercancel = (event) => down.delete(event.pointerId);
    canvas.onwheel = (event) => {
      event.preventDefault();
      this.#magnify(Math.exp(-event.deltaY / 600));
    };
    canvas.onkeydown = (event) => {
      const turns = { ArrowLeft: [-0.12, 0], ArrowRight: [0.12, 0], ArrowUp: [0, 0.08], ArrowDown: [0, -0.08] }[event.key];
      if (turns) this.#rotate(...turns);
      else if (event.key === "+" || event.key === "-") this.#magnify(event.key === "+" ? 1.15 : 1 / 1.15);
      else return;
      event.preventDefault();
    };
  }

  get view() {
    return { turn: this.#turn, tilt: this.#tilt, zoom: this.#zoom };
  }

  #rotate(turn, tilt) {
    this.#turn += turn;
    this.#tilt = Math.min(Math.max(this.#tilt + tilt, 0.05), 1.5);
    this.changed();
  }

  #magnify(factor) {
    this.#zoom = Math.min(Math.max(this.#zoom * factor, 0.3), 4);
    this.changed();
  }

  resize() {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.width = Math.max(this.canvas.clientWidth, 160);
    this.height = Math.round(this.width * 0.56);
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = `${this.height}px`;
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  // shown: {walls, boxes, goal, plan, path (places), skeleton, step}
  draw(shown, colours) {
    if (!this.width) this.resize();
    const { context } = this;
    context.fillStyle = colours.free;
    context.fillRect(0, 0, this.width, this.height);
    const pose = poseAt(shown.skeleton, shown.step);
    this.#aim(pose ? (this.isArm ? this.#middle() : pose[0]) : this.#middle());
    const parts = [...this.#floor(colours), ...this.#walls(shown.walls, colours), ...this.#goal(shown.goal, colours)];
    parts.push(...shown.boxes.flatMap((box) => this.#box(box, colours)));
    parts.push(...this.#trail(shown.plan, colours.plan, 2), ...this.#trail(shown.path, colours.path, 3));
    if (pose) parts.push(...this.#robot(pose, shown.skeleton.bones, colours));
    parts.sort((one, other) => (one.layer ?? 1) - (other.layer ?? 1) || other.depth - one.depth);
    for (const part of parts) part.paint();
    context.globalAlpha = 1;
  }

  // The middle of the workspace, or of the maze.
  #middle() {
    const [above, side] = this.scene.views;
    const mean = ([low, high]) => (low + high) / 2;
    return [mean(above.right_range), mean(above.up_range), side ? mean(side.up_range) + 1 : 0];
  }

  #aim(target) {
    const { right_range: x } = this.scene.views[0];
    const far = (this.isArm ? (x[1] - x[0]) * 3.6 : 7) / this.#zoom;
    const [ct, st, ce, se] = [Math.cos(this.#turn), Math.sin(this.#turn), Math.cos(this.#tilt), Math.sin(this.#tilt)];
    const backwards = [ct * ce, st * ce, se];
    this.target = target;
    this.eye = target.map((value, dim) => value + far * backwards[dim]);
    this.right = [-st, ct, 0];
    this.up = [-ct * se, -st * se, ce];
    this.forward = backwards.map((value) => -value);
    this.focal = this.height * 1.35;
    this.far = far;
  }

  // [x, y on the page, depth]
  #project(point) {
    const from = minus(point, this.eye);
    const depth = dot(from, this.forward);
    const scale = this.focal / Math.max(depth, NEAR);
    return [this.width / 2 + dot(from, this.right) * scale, this.height / 2 - dot(from, this.up) * scale, depth];
  }

  #line(points, colour, width, alpha = 1, layer = 1) {
    const seen = points.map((point) => this.#project(point));
    if (seen.some(([, , depth]) => depth < NEAR)) return [];
    const depth = seen.reduce((sum, point) => sum + point[2], 0) / seen.length;
    return [{ depth, layer, paint: () => this.#path(seen, colour, typeof width === "function" ? width(depth) : width, alpha) }];
  }

  #path(seen, colour, width, alpha) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.lineCap = context.lineJoin = "round";
    context.beginPath();
    seen.forEach(([x, y], number) => (number ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
  }

  #face(corners, colour, alpha, layer = 1) {
    const seen = corners.map((corner) => this.#project(corner));
    if (seen.some(([, , depth]) => depth < NEAR)) return [];
    const { context } = this;
    const depth = seen.reduce((sum, point) => sum + point[2], 0) / seen.length;
    const paint = () => {
      context.globalAlpha = alpha;
      context.fillStyle = colour;
      context.beginPath();
      seen.forEach(([x, y], number) => (number ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.fill();
    };
    return [{ depth, layer, paint }];
  }

  // A floor grid around the camera's target, one line per unit.
  #floor(colours) {
    const parts = [];
    const reach = this.isArm ? 6 : 8;
    const [x, y] = this.target.map(Math.round);
    for (let n = -reach; n <= reach; n += 1) {
      for (let m = -reach; m < reach; m += 1) {
        parts.push(...this.#line([[x + n, y + m, 0], [x + n, y + m + 1, 0]], colours.wall, 1, 0.45, 0));
        parts.push(...this.#line([[x + m, y + n, 0], [x + m + 1, y + n, 0]], colours.wall, 1, 0.45, 0));
      }
    }
    if (!this.isArm) return parts;
    const [above, side] = this.scene.views;
    const [[x0, x1], [y0, y1], [z0, z1]] = [above.right_range, above.up_range, side.up_range];
    for (const z of [z0, z1]) parts.push(...this.#line([[x0, y0, z], [x1, y0, z], [x1, y1, z], [x0, y1, z], [x0, y0, z]], colours.soft, 1, 0.6, 0));
    for (const [px, py] of [[x0, y0], [x1, y0], [x1, y1], [x0, y1]]) parts.push(...this.#line([[px, py, z0], [px, py, z1]], colours.soft, 1, 0.6, 0));
    return parts;
  }

  // Walls near the target, a quarter as high as they are wide, so that they hide little.
  #walls(walls, colours) {
    return walls.flatMap(([x0, x1, y0, y1]) => {
      const [dx, dy] = [Math.max(x0 - this.target[0], this.target[0] - x1, 0), Math.max(y0 - this.target[1], this.target[1] - y1, 0)];
      if (Math.hypot(dx, dy) > this.far * 1.3) return [];
      const h = (x1 - x0) / 8;
      const sides = [[[x0, y0], [x1, y0], [0, -1, 0]], [[x1, y0], [x1, y1], [1, 0, 0]], [[x1, y1], [x0, y1], [0, 1, 0]], [[x0, y1], [x0, y0], [-1, 0, 0]]];
      const faces = sides.flatMap(([a, b, normal]) => {
        if (dot(normal, minus(this.eye, [...a, 0])) <= 0) return [];
        return this.#face([[...a, 0], [...b, 0], [...b, h], [...a, h]], colours.wall, 0.55 + 0.2 * dot(normal, LIGHT));
      });
      return [...faces, ...this.#face([[x0, y0, h], [x1, y0, h], [x1, y1, h], [x0, y1, h]], colours.wall, 0.9)];
    });
  }

  #goal(goal, colours) {
    const [x, y, z] = [goal[0], goal[1], goal[2] ?? 0.02];
    const [a, b] = this.scene.tolerance;
    const square = [[x - a, y - b, z], [x + a, y - b, z], [x + a, y + b, z], [x - a, y + b, z]];
    const shadow = this.isArm ? this.#line([[x, y, 0], [x, y, z]], colours.goal, 1, 0.5) : [];
    return [...this.#face(square, colours.goal, 0.55), ...this.#line([...square, square[0]], colours.goal, 1.5), ...shadow];
  }

  // The edges of a box to avoid; in a maze, as high as a body.
  #box([low, high], colours) {
    const [[x0, y0, z0 = 0], [x1, y1, z1 = 1]] = [low, high];
    const corners = [[x0, y0], [x1, y0], [x1, y1], [x0, y1]];
    const rims = [z0, z1].flatMap((z) => this.#line([...corners, corners[0]].map((corner) => [...corner, z]), colours.avoid, 1.5));
    return [...rims, ...corners.flatMap((corner) => this.#line([[...corner, z0], [...corner, z1]], colours.avoid, 1.5))];
  }

  // In pieces, so that each is sorted by its own depth.
  #trail(places, colour, width) {
    const points = places.map(([x, y, z]) => [x, y, z ?? 0.03]);
    const parts = [];
    for (let n = 0; n + 1 < points.length; n += 4) parts.push(...this.#line(points.slice(n, n + 5), colour, width, 0.9));
    return parts;
  }

  #robot(pose, bones, colours) {
    const { context } = this;
    return bones.flatMap(([first, second, radius], number) => {
      const ends = [pose[first], pose[second]];
      const shadow = this.#line(ends.map(([x, y]) => [x, y, 0.01]), colours.text, (depth) => (2 * radius * this.focal) / depth, 0.13, 0.5);
      if (first !== second) return [...shadow, ...this.#line(ends, number % 2 ? colours.path : colours.replan, (depth) => (2 * radius * this.focal) / depth)];
      const [x, y, depth] = this.#project(pose[first]);
      const paint = () => {
        context.globalAlpha = 1;
        context.fillStyle = colours.path;
        context.beginPath();
        context.arc(x, y, (radius * this.focal) / depth, 0, 2 * Math.PI);
        context.fill();
      };
      return depth < NEAR ? [] : [...shadow, { depth, paint }];
    });
  }
}

// The pose at a control step, interpolated between the two nearest known poses.
export function poseAt(skeleton, step) {
  if (!skeleton) return null;
  const { steps, poses } = skeleton;
  let after = steps.findIndex((known) => known >= step);
  if (after < 0) after = steps.length - 1;
  if (after === 0 || steps[after] <= step) return poses[after];
  const share = (step - steps[after - 1]) / (steps[after] - steps[after - 1]);
  return poses[after].map((point, n) => point.map((value, dim) => poses[after - 1][n][dim] + share * (value - poses[after - 1][n][dim])));
}

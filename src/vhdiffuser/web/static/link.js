// The scene in the page's address: settings that differ from the defaults follow the #.

const NUMBERS = { gamma: Number.parseFloat, risk: Number.parseFloat, deadline: (text) => Number.parseInt(text, 10), steps: (text) => Number.parseInt(text, 10), seed: (text) => Number.parseInt(text, 10) };

const SWITCHES = ["field", "compare", "route", "fan", "space"];

export function toHash(state, scene) {
  const parts = new URLSearchParams();
  parts.set("env", state.environment);
  parts.set("start", state.start.join(","));
  parts.set("goal", state.goal.join(","));
  const ownMargin = state.gamma !== scene.gamma || (state.risk === null && scene.risk !== null);
  if (ownMargin) parts.set("gamma", state.gamma);
  if (state.risk !== null && (ownMargin || state.risk !== scene.risk)) parts.set("risk", state.risk);
  if (state.deadline !== null) parts.set("deadline", state.deadline);
  if (state.deadline !== null && state.arrive === "at") parts.set("arrive", "at");
  if (state.sampler !== scene.sampler) parts.set("sampler", state.sampler);
  if (state.steps !== scene.steps) parts.set("steps", state.steps);
  if (state.seed !== 0) parts.set("seed", state.seed);
  if (state.protocol !== "rp") parts.set("protocol", state.protocol);
  for (const name of SWITCHES) if (state[name]) parts.set(name, "1");
  if (state.boxes.length) parts.set("boxes", state.boxes.map((box) => box.flat().join(",")).join(";"));
  if (state.cells.length) parts.set("cells", state.cells.map((cell) => cell.join(",")).join(";"));
  if (!state.wallsKnown) parts.set("told", "0");
  return "#" + parts.toString().replaceAll("%2C", ",").replaceAll("%3B", ";");
}

// Settings in the address; invalid ones are ignored.
export function fromHash(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const state = {};
  if (parts.has("env")) state.environment = parts.get("env");
  for (const name of ["start", "goal"]) {
    const place = (parts.get(name) ?? "").split(",").map(Number.parseFloat);
    if (place.every(Number.isFinite)) state[name] = place;
  }
  for (const [name, read] of Object.entries(NUMBERS)) {
    const value = read(parts.get(name));
    if (Number.isFinite(value)) state[name] = value;
  }
  if (parts.has("sampler")) state.sampler = parts.get("sampler");
  if (parts.get("arrive") === "at") state.arrive = "at";
  if (["ss", "rp", "live"].includes(parts.get("protocol"))) state.protocol = parts.get("protocol");
  for (const name of SWITCHES) if (parts.has(name)) state[name] = parts.get(name) === "1";
  const lists = (name) => (parts.get(name) ?? "").split(";").map((list) => list.split(",").map(Number.parseFloat)).filter((list) => list.every(Number.isFinite));
  if (parts.has("boxes")) state.boxes = lists("boxes").map((box) => [box.slice(0, box.length / 2), box.slice(box.length / 2)]);
  if (parts.has("cells")) state.cells = lists("cells");
  if (parts.has("told")) state.wallsKnown = parts.get("told") !== "0";
  return state;
}

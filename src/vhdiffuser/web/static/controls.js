// The controls: what they show, and what changing them does.

import { get } from "./api.js";
import { saveCsv, saveJson, savePng } from "./download.js";
import { drawRamp, fanRamp, fieldRamp } from "./field.js";
import { Film } from "./film.js";

const $ = (id) => document.getElementById(id);
const SWITCHES = { field: "field", fan: "fan", route: "route", space: "space-toggle", compare: "compare" }; // name -> button

// Fills the list of environments; returns the name of the first one to show.
export async function listEnvironments() {
  const environments = await get("api/environments");
  $("environment").replaceChildren(...environments.map(({ name, ready, commands }) => {
    const option = new Option(ready ? name : `${name} (not ready)`, name);
    if (!ready) option.title = commands.join(" && ");
    option.disabled = !ready;
    return option;
  }));
  const missing = environments.filter((one) => !one.ready);
  $("missing").hidden = missing.length === 0;
  $("missing").querySelector("summary").textContent = `${missing.length} environment${missing.length > 1 ? "s are" : " is"} not ready: commands to run`;
  $("missing").querySelector("ul").replaceChildren(...[...new Set(missing.flatMap((one) => one.commands))].map((command) => {
    const item = document.createElement("li");
    item.append(Object.assign(document.createElement("code"), { textContent: command }));
    return item;
  }));
  const first = environments.find((one) => one.name === "maze2d-large" && one.ready) ?? environments.find((one) => one.ready);
  if (!first && !location.hash) throw new Error(`No environment is ready. Run ${environments[0].commands.join(" and ")}, then restart with --source trained.`);
  return first?.name ?? "";
}

export function fillControls(scene, state, colours) {
  $("environment").value = state.environment;
  $("gamma").max = Math.max(2, Math.ceil(3 * Math.max(scene.gamma, state.gamma)) / 2); // 1.5 times the default
  $("gamma").value = state.gamma;
  $("gamma-value").textContent = Number(state.gamma).toFixed(2);
  if (state.risk !== null && ![...$("risk").options].some(({ value }) => Number(value) === state.risk)) $("risk").add(new Option(`${100 * state.risk} %`, state.risk));
  $("risk").value = state.risk ?? "";
  $("risk").options[0].text = state.deadline === null ? "use the margin" : "5 % (default)";
  $("risk").disabled = !scene.calibrated;
  $("deadline").value = state.deadline ?? "";
  $("deadline").max = scene.step_budget;
  $("deadline").disabled = !scene.calibrated;
  $("uncalibrated").hidden = scene.calibrated;
  $("uncalibrated").querySelector("code").textContent = `vhd calibrate ${scene.environment}`;
  $("arrive").value = state.arrive;
  $("arrive").disabled = state.deadline === null;
  $("gamma").disabled = state.risk !== null || state.deadline !== null;
  $("sampler").replaceChildren(...scene.samplers.map((name) => new Option(name)));
  $("sampler").value = state.sampler;
  $("steps").max = scene.max_steps;
  $("steps").value = state.steps;
  $("seed").value = state.seed;
  document.querySelector(`input[name=protocol][value=${state.protocol}]`).checked = true;
  for (const [name, id] of Object.entries(SWITCHES)) $(id).setAttribute("aria-pressed", state[name]);
  $("space-toggle").hidden = !scene.spatial;
  $("compare").disabled = !scene.executes;
  $("comparison").hidden = !state.compare;
  $("route-legend").hidden = !state.route;
  drawRamp($("ramp"), fieldRamp(colours));
  drawRamp($("fan-ramp"), fanRamp(colours));
}

export function connectControls(page) {
  const { model, answers } = page;
  const { state } = model;
  const { denoising, playing } = answers;
  $("environment").addEventListener("change", () => page.choose($("environment").value));
  $("gamma").addEventListener("input", () => {
    $("gamma-value").textContent = Number($("gamma").value).toFixed(2);
    page.gamma(Number($("gamma").value), false);
  });
  $("gamma").addEventListener("change", () => page.gamma(Number($("gamma").value), true));
  $("risk").addEventListener("change", () => page.changeSettings({ risk: Number($("risk").value) || null }));
  $("sampler").addEventListener("change", () => page.changeSettings({ sampler: $("sampler").value }));
  $("arrive").addEventListener("change", () => page.changeSettings({ arrive: $("arrive").value }));
  connectNumber(page, "deadline", 2, () => page.model.scene.step_budget, true);
  connectNumber(page, "steps", 1, () => page.model.scene.max_steps);
  connectNumber(page, "seed", 0, () => 2 ** 31 - 1);
  for (const [name, id] of Object.entries(SWITCHES)) $(id).addEventListener("click", () => page.change({ [name]: !state[name] }));
  for (const input of document.querySelectorAll("input[name=protocol]")) input.addEventListener("change", () => page.changeSettings({ protocol: input.value }));
  $("places").addEventListener("submit", (event) => event.preventDefault());
  $("random").addEventListener("click", () => page.randomPair().catch(page.refuse));
  $("link").addEventListener("click", copyLink);
  $("refusal-close").addEventListener("click", () => { $("refusal").hidden = true; });
  $("save-json").addEventListener("click", () => saveJson(model.known.plan));
  $("save-csv").addEventListener("click", () => saveCsv(model.known.plan));
  $("save-png").addEventListener("click", () => savePng(page.pictures));
  $("tour-begin").addEventListener("click", () => page.tour.begin());
  const caption = () => `${state.environment}: horizon ${$("length").textContent} states. ${playing.frame ? `Executed ${playing.frame} steps.` : $("denoise-at").textContent}`;
  new Film($("film"), { playable: [denoising, playing], scene: page.pictures, caption, changed: (text) => { $("status").textContent = text; } });
  connectKeys(page);
  window.addEventListener("hashchange", page.followLink);
  new ResizeObserver(page.resize).observe(document.querySelector("header")); // as wide as the page
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", page.recolour);
}

function connectNumber(page, id, low, high, optional = false) {
  $(id).addEventListener("change", () => {
    const value = Math.round(Number($(id).value));
    if (optional && $(id).value === "" && !$(id).validity.badInput) page.changeSettings({ [id]: null });
    else if ($(id).value === "" || !(value >= low) || !(value <= high())) {
      page.refuse({ message: `${$(id).labels[0].textContent}: enter a whole number from ${low} to ${high()}.` });
      $(id).value = page.model.state[id];
    } else page.changeSettings({ [id]: value });
  });
}

function connectKeys(page) {
  const { state } = page.model;
  const { denoising, playing } = page.answers;
  const click = (id) => () => $(id).click();
  const keys = { " ": () => playing.toggle(), d: () => denoising.toggle(), f: click("field"), k: click("fan"), c: click("compare"), r: click("random"), p: () => page.changeSettings({ protocol: { ss: "rp", rp: "live", live: "ss" }[state.protocol] }) };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !page.model.scene) return;
    if (event.target.closest("input, select, summary, textarea") || (event.key === " " && event.target.closest("button:not(.handle), a"))) return;
    const action = keys[event.key.toLowerCase()];
    if (action) {
      event.preventDefault();
      action();
    }
  });
}

// Said on the button itself: the status line may be out of sight.
async function copyLink() {
  let said = "Link copied";
  try {
    await navigator.clipboard.writeText(location.href);
    $("status").textContent = "Link copied to the clipboard.";
  } catch {
    said = "Copy the address";
    $("status").textContent = "Copy this page's address: it contains the scene.";
  }
  $("link").textContent = said;
  setTimeout(() => { $("link").textContent = "Copy link"; }, 2500);
}

// Tour for the first visit: four steps, each beside what it explains. It can be skipped and is shown once.

const KEY = "vhd-tour-seen";
const STEPS = [
  [".picture", "The scene", "Drag the goal (diamond) or the start (round). With the keyboard, Tab to one and use the arrow keys. A red square around the goal is its region, to scale; in some mazes it is smaller than the diamond."],
  ["#horizon-card", "The horizon is predicted", "The Length Predictor estimates how many states the plan needs. The band shows how this varies within the tolerance of start and goal; H1 to H3 are the baselines' fixed horizons."],
  ["#execution-card", "Plan, then execution", "The plan is denoised (above), then the robot follows it. When it leaves the plan, it replans with a new horizon. Move the goal during playback, and it replans from where it is."],
  ["#show", "Look closer", "Show the distance field, 64 scored candidates or the route of a long plan; compare with fixed horizons. Below: save a film, change settings, add obstacles, run random pairs."],
];

// As in the style sheet.
const isNarrow = () => matchMedia("(max-width: 900px)").matches;

const remembered = () => {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return false; // storage is disabled: show the tour at every visit
  }
};

export class Tour {
  #step = 0;
  #before = null;

  constructor(dialog) {
    this.dialog = dialog;
    dialog.querySelector(".tour-next").addEventListener("click", () => this.#go(this.#step + 1));
    dialog.querySelector(".tour-back").addEventListener("click", () => this.#go(this.#step - 1));
    dialog.querySelector(".tour-skip").addEventListener("click", () => this.end());
    dialog.addEventListener("keydown", (event) => {
      event.stopPropagation(); // not the page's shortcuts
      if (event.key === "Escape") this.end();
    });
    window.addEventListener("resize", () => this.#show());
    window.addEventListener("scroll", () => this.#place(), { passive: true });
  }

  beginOnFirstVisit() {
    if (!remembered()) this.begin();
  }

  begin() {
    this.#before = document.activeElement;
    this.dialog.hidden = false;
    document.body.classList.add("touring");
    this.#go(0);
  }

  end() {
    this.dialog.hidden = true;
    document.body.classList.remove("touring");
    this.#mark(null);
    try {
      localStorage.setItem(KEY, "1");
    } catch { /* see above */ }
    if (this.#before?.isConnected) this.#before.focus({ preventScroll: true });
  }

  #go(step) {
    if (step >= STEPS.length) {
      this.end();
      return;
    }
    this.#step = Math.max(step, 0);
    const [selector, title, text] = STEPS[this.#step];
    this.dialog.querySelector("h2").textContent = title;
    this.dialog.querySelector(".tour-text").textContent = text;
    this.dialog.querySelector(".tour-count").textContent = `${this.#step + 1} of ${STEPS.length}`;
    this.dialog.querySelector(".tour-back").disabled = this.#step === 0;
    this.dialog.querySelector(".tour-next").textContent = this.#step + 1 < STEPS.length ? "Next" : "Done";
    const target = document.querySelector(selector);
    this.#mark(target);
    this.#show();
    this.dialog.querySelector(".tour-next").focus({ preventScroll: true });
  }

  #mark(target) {
    for (const old of document.querySelectorAll(".toured")) old.classList.remove("toured");
    target?.classList.add("toured");
  }

  // Scrolls to the target, and stands beside it.
  #show() {
    if (this.dialog.hidden) return;
    document.querySelector(STEPS[this.#step][0]).scrollIntoView({ block: isNarrow() ? "start" : "nearest" });
    this.#place();
  }

  // Beside its target where there is room; on a phone, the style sheet puts it at the lower edge, below the target.
  #place() {
    if (this.dialog.hidden) return;
    const target = document.querySelector(STEPS[this.#step][0]).getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.dialog;
    const room = { right: window.innerWidth - target.right, left: target.left };
    let left = room.right >= width + 24 ? target.right + 18 : room.left >= width + 24 ? target.left - width - 18 : target.right - width - 12;
    left = Math.min(Math.max(left, 12), window.innerWidth - width - 12);
    const top = Math.min(Math.max(target.top, 12), window.innerHeight - height - 12);
    this.dialog.style.left = `${left}px`;
    this.dialog.style.top = `${top}px`;
  }
}

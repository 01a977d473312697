// Play, pause and scrub over a number of frames.

export class Player {
  #begun = 0;
  #from = 0;
  #request = 0;

  constructor(button, slider, output, { seconds, label, changed }) {
    Object.assign(this, { button, slider, output, seconds, label, changed, ended: null }); // ended: called at a film's end
    button.addEventListener("click", () => this.toggle());
    slider.addEventListener("input", () => {
      this.pause();
      this.#show();
    });
  }

  get frame() {
    return Number(this.slider.value);
  }

  get last() {
    return Number(this.slider.max);
  }

  get atEnd() {
    return this.frame >= this.last;
  }

  get isPlaying() {
    return this.#request !== 0;
  }

  // Sets the number of frames and shows the last one, or the given one.
  load(frames, at = frames - 1) {
    this.pause();
    this.slider.max = Math.max(frames - 1, 0);
    this.slider.value = Math.min(Math.max(at, 0), this.slider.max);
    this.button.disabled = this.slider.disabled = frames < 2;
    this.#show();
  }

  rewind() {
    this.slider.value = 0;
    this.#show();
  }

  toggle() {
    if (this.#request) this.pause();
    else this.play();
  }

  play() {
    if (this.slider.disabled) return;
    this.#from = this.atEnd ? 0 : this.frame;
    this.#begun = performance.now();
    this.slider.value = this.#from;
    this.#button("\u2016", "Pause");
    const step = (now) => {
      const frame = this.#from + ((now - this.#begun) / 1000 / this.seconds(this.last)) * this.last;
      this.slider.value = Math.min(Math.floor(frame), this.last);
      this.#show();
      if (frame >= this.last) this.pause(true);
      else this.#request = requestAnimationFrame(step);
    };
    this.#request = requestAnimationFrame(step);
  }

  pause(ended = false) {
    cancelAnimationFrame(this.#request);
    this.#request = 0;
    this.#button("\u25b6", "Play");
    if (ended) this.ended?.();
  }

  #button(sign, verb) {
    this.button.textContent = sign;
    this.button.setAttribute("aria-label", this.button.getAttribute("aria-label").replace(/^\w+/, verb));
  }

  #show() {
    const text = this.label(this.frame, this.last);
    this.output.textContent = text;
    this.slider.setAttribute("aria-valuetext", text);
    this.changed();
  }
}

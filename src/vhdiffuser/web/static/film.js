// Records the scene's canvases as a WebM video: the denoising, then the execution.

import { compose, save } from "./download.js";

const RATE = 30; // frames per second
const STILL = 900; // milliseconds for which the last frame is held

export const canFilm = Boolean(window.MediaRecorder && HTMLCanvasElement.prototype.captureStream);

export class Film {
  #recorder = null;

  constructor(button, { playable, scene, caption, changed }) {
    Object.assign(this, { button, playable, scene, caption, changed });
    button.addEventListener("click", () => (this.#recorder ? this.#recorder.stop() : this.record()));
    if (!canFilm) button.title = "This browser cannot record video.";
  }

  async record() {
    const name = this.scene().environment;
    const { canvas, paint } = compose(this.scene);
    paint(this.caption());
    const kind = ["video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/webm"].find((type) => MediaRecorder.isTypeSupported(type));
    const recorder = (this.#recorder = new MediaRecorder(canvas.captureStream(RATE), { mimeType: kind, videoBitsPerSecond: 4_000_000 }));
    const parts = [];
    recorder.addEventListener("dataavailable", (event) => parts.push(event.data));
    const stopped = new Promise((resolve) => recorder.addEventListener("stop", resolve));
    const painting = setInterval(() => paint(this.caption()), 1000 / RATE);
    this.#label(true);
    recorder.start(250);
    this.#play(recorder);
    await stopped;
    clearInterval(painting);
    for (const player of this.playable) player.ended = null;
    this.#recorder = null;
    this.#label(false);
    const blob = new Blob(parts, { type: "video/webm" });
    save(blob, `${name}.webm`);
    this.changed(`Film saved (${Math.max(Math.round(blob.size / 1000), 1)} kB).`);
  }

  // One player after the other, each from its start.
  #play(recorder) {
    const stop = () => setTimeout(() => recorder.state === "recording" && recorder.stop(), STILL);
    const next = (number) => {
      const player = this.playable[number];
      if (player === undefined || recorder.state !== "recording") stop();
      else if (player.slider.disabled) next(number + 1);
      else {
        player.ended = () => {
          player.ended = null;
          next(number + 1);
        };
        player.rewind();
        player.play();
      }
    };
    next(0);
  }

  #label(recording) {
    this.button.textContent = recording ? "Stop film" : "Film";
    this.button.setAttribute("aria-pressed", recording);
  }
}

// Downloads of the plan: JSON and CSV as written by `vhd plan`, PNG as shown on the page.

export function save(blob, name) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

export function saveJson(plan) {
  const { environment, length, state_names, goal, states, sampler, steps, gamma, risk, seed } = plan;
  const value = { environment, length, state_names, goal, states, sampler, steps, gamma, risk, seed };
  save(new Blob([JSON.stringify(value)], { type: "application/json" }), `${environment}-plan.json`);
}

export function saveCsv(plan) {
  const lines = [["step", ...plan.state_names], ...plan.states.map((state, step) => [step, ...state])];
  save(new Blob([lines.map((line) => line.join(",")).join("\n") + "\n"], { type: "text/csv" }), `${plan.environment}-plan.csv`);
}

// All views of the scene, one below the other, with start, goal and a caption.
// `scene()` returns what is shown: {environment, pictures: [{canvas, view}], start, goal, colours}.
export function compose(scene) {
  const gap = 12;
  const { pictures } = scene();
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  const ratio = pictures[0].canvas.width / Math.max(pictures[0].canvas.clientWidth, 1);
  canvas.width = Math.max(...pictures.map((one) => one.canvas.width));
  const paint = (caption) => {
    const { pictures: shown, start, goal, colours } = scene();
    const foot = caption ? 26 * ratio : 0;
    const height = Math.round(shown.reduce((sum, one) => sum + one.canvas.height + gap, -gap) + foot);
    if (canvas.height !== height) canvas.height = height;
    context.fillStyle = colours.card;
    context.fillRect(0, 0, canvas.width, canvas.height);
    let top = 0;
    for (const { canvas: picture, view } of shown) {
      context.drawImage(picture, 0, top);
      for (const [place, colour] of view ? [[start, colours.start], [goal, colours.goal]] : []) {
        const [x, y] = view.at(place);
        context.beginPath();
        context.arc(x * ratio, top + y * ratio, 7 * ratio, 0, 2 * Math.PI);
        context.fillStyle = colour;
        context.fill();
        context.lineWidth = 1.5 * ratio;
        context.strokeStyle = colours.text;
        context.stroke();
      }
      top += picture.height + gap;
    }
    if (!caption) return;
    context.fillStyle = colours.text;
    context.font = `${13 * ratio}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    context.fillText(caption, 4 * ratio, canvas.height - foot / 2, canvas.width - 8 * ratio);
  };
  return { canvas, paint };
}

export function savePng(scene) {
  const { canvas, paint } = compose(scene);
  paint("");
  canvas.toBlob((blob) => save(blob, `${scene().environment}-plan.png`));
}

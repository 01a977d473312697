// The plan as a file: JSON and CSV as `vhd plan` writes them, PNG as it is on the page.

function save(blob, name) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

export function saveJson(plan) {
  const { environment, length, state_names, goal, states, sampler, steps, gamma, seed } = plan;
  const value = { environment, length, state_names, goal, states, sampler, steps, gamma, seed };
  save(new Blob([JSON.stringify(value)], { type: "application/json" }), `${environment}-plan.json`);
}

export function saveCsv(plan) {
  const lines = [["step", ...plan.state_names], ...plan.states.map((state, step) => [step, ...state])];
  save(new Blob([lines.map((line) => line.join(",")).join("\n") + "\n"], { type: "text/csv" }), `${plan.environment}-plan.csv`);
}

// All views below each other, with the markers that on the page are buttons.
export function savePng(plan, views, start, goal, colours) {
  const gap = 12;
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(...views.map((view) => view.canvas.width));
  canvas.height = views.reduce((sum, view) => sum + view.canvas.height + gap, -gap);
  const context = canvas.getContext("2d");
  context.fillStyle = colours.card;
  context.fillRect(0, 0, canvas.width, canvas.height);
  let top = 0;
  for (const view of views) {
    context.drawImage(view.canvas, 0, top);
    const ratio = view.canvas.width / view.width;
    for (const [place, colour] of [[start, colours.start], [goal, colours.goal]]) {
      const [x, y] = view.at(place);
      context.beginPath();
      context.arc(x * ratio, top + y * ratio, 7 * ratio, 0, 2 * Math.PI);
      context.fillStyle = colour;
      context.fill();
      context.lineWidth = 1.5 * ratio;
      context.strokeStyle = colours.text;
      context.stroke();
    }
    top += view.canvas.height + gap;
  }
  canvas.toBlob((blob) => save(blob, `${plan.environment}-plan.png`));
}

// Client of the JSON API: plain requests, and event streams that a newer request cancels.

const client = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
let sequence = 0;

export class Refusal extends Error {
  constructor(kind, reason) {
    super(reason);
    this.kind = kind;
  }
}

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("offline", "No answer from the server. Is `vhd serve` still running?");
  }
  if (response.ok) return response;
  let refusal = { kind: "http", reason: `The server answered ${response.status}.` };
  try {
    refusal = await response.json();
  } catch { /* not JSON: the status has to do */ }
  throw new Refusal(refusal.kind, refusal.reason);
}

function posted(body, signal) {
  sequence += 1;
  const text = JSON.stringify({ ...body, client, sequence });
  return { method: "POST", headers: { "content-type": "application/json" }, body: text, signal };
}

export async function get(path) {
  return (await answered(path, {})).json();
}

export async function post(path, body, signal) {
  return (await answered(path, posted(body, signal))).json();
}

// Yields [event, value] for each line of the response.
export async function* stream(path, body, signal) {
  const response = await answered(path, posted(body, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const message = JSON.parse(line);
      if (message.event === "error") throw new Refusal(message.value.kind, message.value.reason);
      yield [message.event, message.value];
    }
  }
}

// Sends only the newest request. During a drag, a request in flight may finish its plan first, so that something is
// always drawn; the rest of it (the execution) is then cancelled. A drop cancels it at once.
export class Newest {
  #next = null;
  #controller = null;
  #shown = false;

  constructor(run, refused) {
    this.run = run; // (request, signal, shown) -> promise; calls shown() once the main part is on the page
    this.refused = refused;
  }

  ask(request, cutIn) {
    this.#next = request;
    if (this.#controller === null) this.#work();
    else if (cutIn || this.#shown) this.#controller.abort();
  }

  stop() {
    this.#next = null;
    this.#controller?.abort();
  }

  async #work() {
    while (this.#next !== null) {
      const request = this.#next;
      this.#next = null;
      this.#shown = false;
      const controller = (this.#controller = new AbortController());
      const shown = () => {
        this.#shown = true;
        // Wait briefly: in a maze the execution arrives within milliseconds.
        if (this.#next !== null) setTimeout(() => controller.abort(), 60);
      };
      try {
        await this.run(request, controller.signal, shown);
      } catch (error) {
        if (error.name !== "AbortError" && error.kind !== "stale") this.refused(error, request);
      }
    }
    this.#controller = null;
  }
}

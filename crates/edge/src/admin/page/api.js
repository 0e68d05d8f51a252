// The admin API: requests with the token, the stream of events, and when to ask again.

export class Unauthorized extends Error {}
export class NotThere extends Error {}

let token = sessionStorage.getItem("token");

export function useToken(text) {
  token = text;
  sessionStorage.setItem("token", token);
}

export const hasToken = () => Boolean(token);

export async function ask(path, options = {}) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.ok) return response;
  if (response.status === 401) throw new Unauthorized("this server asks for its token");
  const { error } = await response.json().catch(() => ({}));
  const Kind = response.status === 404 ? NotThere : Error;
  throw new Kind(error ?? `the server answered ${response.status}`);
}

export const json = async (path) => (await ask(path)).json();
export const post = async (path, body) => (await ask(path, { method: "POST", body: JSON.stringify(body) })).json();

// Calls `take(name, data)` for each server-sent event. They are read by fetch, because EventSource can send
// no Authorization.
export async function events(take) {
  const response = await ask("/v1/events");
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (buffer + value).split("\n\n");
    buffer = blocks.pop();
    for (const block of blocks) {
      const field = (name) => block.match(new RegExp(`^${name}: (.*)$`, "m"))?.[1];
      if (field("data")) take(field("event"), JSON.parse(field("data")));
    }
  }
}

const polls = [];

// Has `work` done now, and again `pause` ms after it ended, while its section can be seen. Returns a function
// that has it done at once.
export function poll(section, pause, work) {
  const one = { section, pause, work, due: 0, busy: false };
  polls.push(one);
  return () => {
    one.due = 0;
    if (running) tick();
  };
}

let running = false;
let timer = null;
let failed = () => {};

// Begins to poll. `onFailure` hears of requests that failed.
export function begin(onFailure) {
  failed = onFailure;
  running = true;
  if (!timer) document.addEventListener("visibilitychange", tick);
  timer ??= setInterval(tick, 400);
  tick();
}

export function stop() {
  running = false;
}

function tick() {
  if (!running || document.hidden) return;
  const now = performance.now();
  for (const one of polls) {
    if (!one.busy && now >= one.due && isNear(one.section)) run(one);
  }
}

async function run(one) {
  one.busy = true;
  one.due = performance.now() + one.pause;
  try {
    await one.work();
  } catch (error) {
    failed(error);
  }
  one.busy = false;
}

function isNear(section) {
  if (!section) return true;
  const { top, bottom } = section.getBoundingClientRect();
  return bottom > -300 && top < innerHeight + 300;
}

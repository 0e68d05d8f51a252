// The stream of events, with filters.

import { events } from "./api.js";
import { $, table } from "./dom.js";
import { bytes, clock, micros, rate, version } from "./units.js";

const SHOWN = 200;
// Kept for a change of the filters.
const KEPT = 2000;

const DESCRIBE = {
  response(event) {
    const lost = event.packets_sent ? (event.packets_lost / event.packets_sent) * 100 : 0;
    return [
      version(event.version),
      ` ${event.status ?? "no status"} ${event.method} ${event.host}${event.path}`,
      ["faint", ` ${bytes(event.bytes)} in ${micros(event.duration_us)}, ${rate(event.goodput_bps)},` +
        ` RTT ${micros(event.min_rtt_us)}, ${lost.toFixed(2)} % lost`],
      ["bad", `${event.complete ? "" : " incomplete"}${event.error ? ` ${event.error}` : ""}`],
    ];
  },
  decision: (event) => [event.explanation],
  route: (event) => [event.moved ? "moved: " : "", event.explanation],
  udp: (event) => [event.event.replaceAll("_", " ")],
  missed: (event) => [`${event.events} events came faster than this page could take them`],
};

let kept = [];
let number = 0;
let isDue = false;

export function start() {
  for (const id of ["events-kind", "events-version", "events-text", "events-errors"]) $(id).addEventListener("input", draw);
  // However many come, they are drawn twice a second.
  setInterval(() => {
    if (isDue && !$("pause").checked && !document.hidden) draw();
  }, 500);
}

// Reads events until the stream ends. `others` see them, too.
export function read(others) {
  return events((name, event) => {
    if (!DESCRIBE[name]) return;
    const parts = DESCRIBE[name](event);
    for (const other of others) other(name, event, parts);
    const text = `${event.client ?? ""} ${event.host ?? ""}${event.path ?? ""} ${event.explanation ?? ""}`.toLowerCase();
    kept.unshift({ key: ++number, time: clock(event.time), name, event, parts, text });
    if (kept.length > 2 * KEPT) kept = kept.slice(0, KEPT);
    isDue = true;
  });
}

const isError = ({ name, event }) => name === "response" ? !event.complete || !event.status || event.status >= 400
  : name === "udp" && event.event !== "arrived";

function draw() {
  isDue = false;
  const [kind, over, text] = ["events-kind", "events-version", "events-text"].map((id) => $(id).value.trim().toLowerCase());
  const errors = $("events-errors").checked;
  const shown = [];
  for (const one of kept) {
    const isWanted = (!kind || one.name === kind) && (!over || one.event.version === over) &&
      (!text || one.text.includes(text)) && (!errors || isError(one));
    if (isWanted && shown.push(one) === SHOWN) break;
  }
  table($("event-rows"), shown, ({ key }) => key, [
    { c: "narrow faint", parts: ({ time }) => time },
    { c: "narrow", parts: ({ event }) => event.client ?? "" },
    { c: "narrow", parts: ({ name }) => name },
    { c: "wide", parts: ({ parts }) => parts },
  ]);
}

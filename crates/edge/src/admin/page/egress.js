// Egress paths: their use and gain, client networks, and the changes of connections.

import { json, poll } from "./api.js";
import { $, fill, none, table } from "./dom.js";
import { bytes, clock, count, rate } from "./units.js";

const MAX_CHANGES = 50;
// Fewer responses than this of either group show more of the clients than of the paths.
const MIN_COMPARED = 100;
const STEER = { mark: "marks, also while they live", address: "addresses in Alt-Svc, when they begin" };

let changes = [];
let number = 0;

export function start() {
  poll($("egress"), 5000, async () => {
    if (!$("egress").hidden) showNetworks(await json("/v1/networks?limit=20"));
  });
}

// Shows the summary of the status, where there is one.
export function show(egress) {
  $("egress").hidden = !egress;
  document.querySelector("[data-for=egress]").hidden = !egress;
  if (!egress) return;
  fill($("agent"),
    egress.connected ? "The agent answers." : ["bad", "The agent does not answer: connections go back to plain."],
    ` Connections are steered by ${STEER[egress.steer] ?? egress.steer}.`);
  const states = new Map(egress.paths.map((path) => [path.name, path]));
  const state = ({ route }) => {
    const path = states.get(route);
    if (!path) return [["faint", route === "plain" ? "as BGP chose" : "several paths by MPTCP"]];
    return [[path.state === "up" ? "" : "bad", path.state], ["faint", `${path.backup ? " backup" : ""}${path.reason ? ` ${path.reason}` : ""}`]];
  };
  const figure = (name) => ({ c: "number", parts: (route) => count(route[name]) });
  table($("routes"), egress.routes, ({ route }) => route, [
    { c: "", parts: ({ route }) => route }, { c: "wide", parts: state },
    figure("open"), figure("begun"), figure("moved"), figure("responses"),
    { c: "number", parts: (route) => bytes(route.bytes) }, figure("stalls"),
  ]);
  fill($("compared"), ...compared(egress.compared));
}

function showNetworks(networks) {
  const gain = (what, part) => (part === null ? "" : ` ${what} ${part < 0 ? "" : "+"}${(part * 100).toFixed(0)} %`);
  const ways = (network) => network.routes.flatMap((route, place) => [
    `${place ? "; " : ""}${route.route}`,
    ["faint", `${place ? gain("goodput", route.goodput_gain) + gain("later goodput", route.sustained_gain) + gain("RTT", route.rtt_gain) : ""}` +
      ` ${route.samples.toFixed(0)} samples`]]);
  table($("networks"), networks, ({ asn }) => asn, [
    { c: "", parts: ({ asn }) => `AS${asn}` },
    { c: "narrow faint", parts: ({ age }) => (age === "0ns" ? "now" : `${age} ago`) },
    { c: "wide", parts: ways },
  ]);
  none($("networks"), 3, "None yet.");
}

// Gain of choosing, against the clients that are held back on plain for the comparison.
function compared(both) {
  if (!both) return [["faint", "A route is pinned, or none can be chosen."]];
  const { held_back: plain, others } = both;
  const group = (of) => `${rate(of.goodput_bps)} (${count(of.responses)} responses)`;
  if (!plain.responses || !others.responses) {
    const missing = plain.responses ? "other clients" : "clients held back on plain (policy.holdback)";
    return [["faint", `Nothing to compare yet: no goodput of ${missing}.`]];
  }
  const gain = (others.goodput_bps / plain.goodput_bps - 1) * 100;
  const enough = Math.min(plain.responses, others.responses) >= MIN_COMPARED;
  return [
    enough ? [gain < 0 ? "bad" : "good", `${gain < 0 ? "" : "+"}${gain.toFixed(1)} % goodput: `] : "Goodput: ",
    `${group(others)} where the way is chosen, ${group(plain)} where clients are held back on plain.`,
    ["faint", enough ? "" : ` Too few to show a gain: ${MIN_COMPARED} of each are needed.`],
  ];
}

// Takes an event of the stream.
export function take(name, event) {
  if (name !== "route") return;
  changes.unshift({ key: ++number, time: clock(event.time), event });
  changes = changes.slice(0, MAX_CHANGES);
  table($("changes"), changes, ({ key }) => key, [
    { c: "narrow faint", parts: ({ time }) => time },
    { c: "narrow", parts: ({ event: { client, port } }) => `${client} port ${port}` },
    { c: "narrow", parts: ({ event: { route, moved } }) => [route, ["faint", moved ? " moved" : ""]] },
    { c: "wide", parts: ({ event: { explanation } }) => explanation },
  ]);
}

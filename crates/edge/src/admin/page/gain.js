// What clients gain: load times with hikyaku against those of the clients that are held back.

import { json, NotThere, poll } from "./api.js";
import { ratioBar } from "./charts.js";
import { $, element, fill, none, remember, table } from "./dom.js";
import { change, count, interval, NAMES, seconds, share, span } from "./units.js";

const LEAST = 20;
const VERDICTS = {
  sooner: ["good", "sooner"], later: ["bad", "later"], undecided: ["faint", "not decided yet"],
  too_few: ["faint", "too few clients yet"], no_hold_back: ["faint", "nobody is held back"],
};

export function start() {
  const again = poll($("gain"), 15000, show);
  remember($("gain-since"), "gain-since", again);
  remember($("gain-by"), "gain-by", again);
}

async function show() {
  const by = $("gain-by").value;
  let gain;
  try {
    gain = await json(`/v1/gain?since=${$("gain-since").value}&by=${by}`);
  } catch (error) {
    if (!(error instanceof NotThere)) {
      fill($("gain-note"), ["bad", error.message]);
      $("gain-by-group").hidden = true;
      // The countries need a database: the rest is the same without them.
      if (by !== "network") return showAll(await json(`/v1/gain?since=${$("gain-since").value}`));
      return;
    }
    fill($("gain-sentence"), "This server does not measure what its clients gain.");
    fill($("gain-note"), "It has no /v1/gain. What each client is expected to save is in the list of clients.");
    $("gain-figures").hidden = $("gain-by-group").hidden = true;
    return;
  }
  fill($("gain-note"), ...note(gain));
  showAll(gain);
  showGroups(gain, by);
}

function showAll(gain) {
  fill($("gain-sentence"), sentence(gain));
  $("gain-figures").hidden = !gain.ratio;
  if (!gain.ratio) return;
  ratioBar($("gain-chart"), gain.ratio, {
    large: true, name: `Change of the mean load time: ${interval(gain.ratio)}, below 0 is sooner.`,
  });
  fill($("gain-until"), until(gain));
  const times = Object.entries(gain.load_time_s ?? {});
  table($("gain-times"), times, ([name]) => name, [
    { c: "", parts: ([name]) => QUANTILES[name] ?? name },
    { c: "number", parts: ([, time]) => seconds(time.hikyaku) },
    { c: "number", parts: ([, time]) => seconds(time.hold_back) },
    { c: "number", parts: ([, time]) => (time.ratio ? [[tone(time.ratio), interval(time.ratio)]] : "–") },
  ]);
  fill($("gain-versions"), versions(gain.versions));
}

const QUANTILES = { p50: "the median", p75: "the slowest quarter (p75)", p95: "the slowest twentieth (p95)" };
const tone = (ratio) => (ratio.high < 1 ? "good" : ratio.low > 1 ? "bad" : "");

function sentence(gain) {
  const { hikyaku, hold_back: held } = gain.clients;
  if (gain.verdict === "no_hold_back") {
    return "Nobody is held back, so nobody can tell what the others gain: set policy.holdback, for example to 0.01.";
  }
  if (gain.verdict === "too_few" && !gain.ratio) {
    return `Too few clients yet to say what they gain: ${count(hikyaku)} with hikyaku and ${count(held)} held back, ` +
      `and ${LEAST} of each are needed.`;
  }
  return gain.sentence;
}

function note(gain) {
  const parts = [VERDICTS[gain.verdict] ?? ["faint", gain.verdict]];
  for (const [which, word] of [["best", "Best"], ["worst", "Worst"]]) {
    const group = gain[which];
    if (group?.ratio) parts.push(` · ${word} network ${group.name}: ${change(group.ratio.mean)}`);
  }
  const { hikyaku, hold_back: held } = gain.clients;
  parts.push(` · ${count(hikyaku)} clients with hikyaku, ${count(held)} held back (${share(gain.holdback)})`);
  const lost = gain.incomplete;
  if (lost) parts.push(` · ${share(lost.hikyaku)} and ${share(lost.hold_back)} of the responses did not arrive whole`);
  if (gain.edges > 1) parts.push(` · of ${gain.edges} edges`);
  return parts;
}

function until({ until_5_percent: until }) {
  if (!until) return "The range of the change holds at any time of looking, with 95 %.";
  const wait = until.seconds === null || until.seconds === undefined ? "" : `, in about ${span(until.seconds)}`;
  return `A change of 5 % can be told from ${count(until.clients)} more clients on${wait}.`;
}

function versions(both) {
  if (!both) return "";
  const list = (of) => Object.entries(of ?? {}).filter(([, part]) => part > 0)
    .map(([name, part]) => `${share(part)} over ${NAMES[name] ?? name}`).join(", ") || "none";
  return `Responses: with hikyaku ${list(both.hikyaku)}; held back ${list(both.hold_back)}.`;
}

function showGroups(gain, by) {
  $("gain-by-group").hidden = false;
  fill($("gain-group-title"), `By ${by}${by === "version" ? ": the version is chosen, so these are shares and no effects" : ""}`);
  const groups = gain.groups ?? [];
  table($("gain-groups"), groups, ({ name }) => name, [
    { c: "", parts: ({ name }) => NAMES[name] ?? name },
    { c: "number", parts: ({ clients }) => count(clients.hikyaku) },
    { c: "number", parts: ({ clients }) => count(clients.hold_back) },
    { c: "narrow", draw: drawRatio },
    { c: "wide", parts: ({ verdict, ratio }) => [VERDICTS[verdict] ?? ["", verdict ?? ""], ratio ? ` ${interval(ratio)}` : ""] },
  ]);
  none($("gain-groups"), 5, "None has enough clients yet.");
}

function drawRatio(cell, { ratio }) {
  const signature = JSON.stringify(ratio);
  if (cell.dataset.ratio === signature) return;
  cell.dataset.ratio = signature;
  if (!ratio) return cell.replaceChildren(element("span", "faint", "–"));
  ratioBar(cell, ratio, { large: false, name: interval(ratio) });
}

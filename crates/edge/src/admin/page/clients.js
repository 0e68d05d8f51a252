// The list of clients, and one of them.

import { ask, json, poll, post } from "./api.js";
import { lines } from "./charts.js";
import { $, define, element, fill, none, remember, svg, table } from "./dom.js";
import { amount, bytes, clock, CONTROLS, count, micros, NAMES, parse, rate, saving, seconds, share, span, version } from "./units.js";

const MAX_HISTORY = 60;
const ORDINARY = "h3-cubic";
const FACES = { hold_back: " held back", explore: " experiment", udp: " UDP fails" };

let address = null;
let history = [];
let watched = null;
const said = {};
let onChosen = () => {};
let refresh = () => {};

export function start(chosen) {
  onChosen = chosen;
  startList();
  refresh = poll($("client"), 2000, showClient);
  $("explain-form").addEventListener("submit", (event) => {
    event.preventDefault();
    choose($("address").value.trim());
  });
  startPin();
  startForget();
}

// Shows a client.
export function choose(wanted) {
  if (address !== wanted) {
    history = [];
    watch(null);
  }
  address = wanted;
  $("address").value = wanted;
  onChosen(wanted);
  refresh();
}

// --- the list

function startList() {
  const again = poll($("clients"), 4000, showList);
  for (const id of ["version", "group", "sort"]) remember($(`clients-${id}`), `clients-${id}`, again);
  let wait;
  $("clients-address").addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(again, 250);
  });
}

async function showList() {
  const [sort, order] = $("clients-sort").value.split("/");
  const query = new URLSearchParams({ limit: 100, sort });
  if (order) query.set("order", order);
  for (const name of ["version", "group", "address"]) {
    const value = $(`clients-${name}`).value.trim();
    if (value) query.set(name, value);
  }
  const response = await ask(`/v1/clients?${query}`);
  const clients = await response.json();
  const [matching, known] = ["hikyaku-matching", "hikyaku-known"].map((name) => response.headers.get(name));
  fill($("clients-count"), matching === null
    ? `${clients.length} seen last, of ${count(known)} addresses and prefixes`
    : `${clients.length} of ${count(matching)} that match, of ${count(known)} clients`);
  table($("client-rows"), clients, (client) => client.address, [
    { c: "", act: pick, parts: (client) => client.address },
    { c: "number", parts: (client) => span(client.age_s) },
    { c: "narrow", parts: (client) => [version(client.version), ["faint", FACES[client.group] ?? ""]] },
    { c: "number", parts: (client) => [client.group === "hold_back" ? ["faint", "–"] : saving(client.saves)] },
    { c: "number", parts: (client) => micros(client.min_rtt_us) },
    { c: "number", parts: (client) => share(client.loss) },
    { c: "number", parts: (client) => rate(client.rate_bps) },
    { c: "wide", parts: (client) => client.reason },
  ], (client) => client.address === address);
  none($("client-rows"), 8, "None.");
}

function pick(client) {
  choose(client.address);
  $("client").focus();
}

// --- one client

const lost = (text) => share(amount(text));
const pathOf = (text) => `/v1/clients/${encodeURIComponent(text).replaceAll("%3A", ":")}`;

async function showClient() {
  if (!address) return;
  const asked = address;
  let client;
  try {
    client = await json(pathOf(asked));
  } catch (error) {
    fill($("client-sentence"), ["bad", error.message]);
    $("client-body").hidden = true;
    return;
  }
  if (asked !== address) return;
  fill($("client-sentence"), ["strong", `${client.address} `], client.sentence);
  $("client-body").hidden = false;
  // Said once, and again when the version changes: the figures move with each response.
  const key = `${client.address} ${client.decision.version}`;
  if (said.key !== key) fill($("client-said"), `${client.address} ${client.sentence}`);
  said.key = key;
  fill($("client-pinned"), client.pinned ? `pinned to ${NAMES[client.pinned.version]} for ${span(client.pinned.for_s)} more` : "");
  $("unpin").hidden = !client.pinned;
  showArms(client);
  const { decision, path, udp } = client;
  define($("client-decision"), [
    ["HTTP version", version(decision.version), ["", ` ${decision.reason.replace(/^[^:]+: /, "")}`]],
    ["TCP", decision.congestion.tcp.reason],
    ["QUIC", decision.congestion.quic.reason],
    ["Alt-Svc", decision.advertised_for ? `h3 for ${span(parse(decision.advertised_for))}`
      : decision.clear === "all" ? "clear" : decision.clear === "h3" ? "none; clear on HTTP/3" : "none"],
    ["UDP", udp.health, udp.prefix ? ` in ${udp.prefix}` : ""],
    ...(client.connections ? [["Connections of a page", `${client.connections.n}: ${client.connections.reason}`]] : []),
  ]);
  const loss = (bounds) => (bounds ? `${lost(bounds.mean)} (${lost(bounds.low)} to ${lost(bounds.high)})` : "–");
  define($("client-path"), [
    ["Round-trip time", path.min_rtt ? seconds(parse(path.min_rtt)) : "–"],
    ["Rate", rate(amount(path.rate))], ["Loss on TCP", loss(path.loss_tcp)], ["Loss on QUIC", loss(path.loss_quic)],
    ["Typical response", bytes(amount(path.size))], ["Samples", count(path.samples)],
  ]);
  showOpen(client.open ?? []);
  showHistory();
  fill($("explanation"), client.text);
}

// A bar for each arm: the chosen one, and that of an ordinary server.
function showArms({ arms, decision, path }) {
  const host = $("client-arms");
  if (!arms.length) {
    host.replaceChildren(element("p", "note", `Too little is known for a prediction: ${count(path.samples)} samples.`));
    return;
  }
  const transport = decision.version === "h3" ? "quic" : "tcp";
  const chosen = `${decision.version === "h3" ? "h3" : "h2"}-${decision.congestion[transport].chosen}`;
  const times = arms.map(({ arm, load }) => ({ arm, time: parse(load.time), sd: load.rel_sd }));
  const longest = Math.max(...times.map(({ time, sd }) => time * (1 + sd)));
  if (host.firstChild?.tagName !== "TABLE") {
    host.replaceChildren(element("table", "", element("thead", "", element("tr", "",
      ...["Arm", "Time", "", ""].map((text, place) => {
        const head = element("th", place === 1 ? "number" : "", text || (place === 2 ? "Expected" : ""));
        head.scope = "col";
        return head;
      }))), element("tbody")));
  }
  table(host.querySelector("tbody"), times, ({ arm }) => arm, [
    { c: "narrow", parts: ({ arm }) => [[arm.slice(0, 2), NAMES[arm.slice(0, 2)]], ` ${(CONTROLS[arm.slice(3)] ?? arm.slice(3)).replace(" and a ", " + ")}`] },
    { c: "number", parts: ({ time, sd }) => [seconds(time), ["faint", ` ±${share(sd)}`]] },
    { c: "", draw: (cell, { arm, time, sd }) => drawArm(cell, arm, time / longest, sd) },
    { c: "narrow", parts: ({ arm }) => [["strong", arm === chosen ? "gets this" : ""], ["faint", arm === ORDINARY ? " ordinary" : ""]] },
  ], ({ arm }) => arm === chosen);
}

function drawArm(cell, arm, part, sd) {
  const signature = `${part.toFixed(3)} ${sd.toFixed(3)}`;
  if (cell.dataset.bar === signature) return;
  cell.dataset.bar = signature;
  const c = arm.slice(0, 2);
  const [from, to] = [part * (1 - sd) * 100, part * (1 + sd) * 100];
  cell.replaceChildren(svg("svg", { viewBox: "0 0 104 14", "aria-hidden": "true", class: "arm" },
    svg("rect", { class: `s-${c}`, x: 0, y: 3, height: 8, width: Math.max(part * 100, 1), stroke: "none", opacity: 0.75 }),
    svg("line", { class: "s-ink", x1: from, x2: to, y1: 7, y2: 7 })));
}

// --- live connections

function showOpen(open) {
  $("client-open-part").hidden = !open.length && watched === null;
  table($("client-open"), open, ({ port, version: name }) => `${name} ${port}`, [
    { c: "", parts: (one) => [version(one.version), ` port ${one.port}`, ["faint", one.route ? ` by ${one.route}` : ""]] },
    { c: "narrow", parts: (one) => [one.algorithm, ["faint", one.slow_start ? " slow start" : ""]] },
    { c: "number", parts: (one) => bytes(amount(one.cwnd)) },
    { c: "number", parts: (one) => (one.rtt ? seconds(parse(one.rtt)) : "–") },
    { c: "narrow", act: (one) => watch(watched?.port === one.port ? null : one.port), parts: (one) => (watched?.port === one.port ? "stop" : "watch") },
  ], (one) => watched?.port === one.port);
}

// Draws the window and the round-trip time of a connection, ten times in two seconds.
function watch(port) {
  clearInterval(watched?.timer);
  watched = null;
  $("client-live").replaceChildren();
  if (port === null) return refresh();
  const host = $("client-live");
  const charts = [lines(host, "Congestion window", bytes), lines(host, "Smoothed RTT", micros)];
  const points = [];
  const look = async () => {
    const { open = [] } = await json(pathOf(address)).catch(() => ({}));
    const one = open.find((connection) => connection.port === port);
    if (!one) return;
    points.push({ t: Date.now() / 1000, cwnd: amount(one.cwnd), rtt: one.rtt ? parse(one.rtt) * 1e6 : null });
    while (points.length > 300) points.shift();
    const times = points.map(({ t }) => t);
    charts[0](times, [{ name: "", c: one.version, values: points.map(({ cwnd }) => cwnd) }]);
    charts[1](times, [{ name: "", c: one.version, values: points.map(({ rtt }) => rtt) }]);
  };
  watched = { port, timer: setInterval(look, 500) };
  look();
  refresh();
}

// --- history

// Takes an event of the stream.
export function take(name, event, parts) {
  if (!address || event.client !== address) return;
  history.unshift({ key: `${performance.now()} ${Math.random()}`, time: clock(event.time), name, parts });
  history.length = Math.min(history.length, MAX_HISTORY);
}

function showHistory() {
  $("client-history-part").hidden = !history.length;
  table($("client-history"), history, ({ key }) => key, [
    { c: "narrow faint", parts: ({ time }) => time },
    { c: "narrow", parts: ({ name }) => name },
    { c: "wide", parts: ({ parts }) => parts },
  ]);
}

// --- pin and forget

function report(text, isBad) {
  fill($("client-pinned"), [isBad ? "bad" : "", text]);
}

async function act(dialog, work) {
  dialog.close();
  try {
    report(await work());
  } catch (error) {
    report(error.message, true);
  }
  setTimeout(refresh, 1500);
}

function startPin() {
  const dialog = $("pin-dialog");
  $("pin").addEventListener("click", () => {
    fill($("pin-question"), `Shall ${address} get one version, whatever is measured?`);
    dialog.showModal();
  });
  $("pin-no").addEventListener("click", () => dialog.close());
  $("unpin").addEventListener("click", () => act(dialog, async () => {
    await post("/v1/pin", { address, version: null });
    return "no longer pinned";
  }));
  $("pin-yes").addEventListener("click", () => act(dialog, async () => {
    const body = { address, version: $("pin-version").value, for: $("pin-time").value };
    const { pinned, for_s: time } = await post("/v1/pin", body);
    return `pinned to ${NAMES[pinned]} for ${span(time)}`;
  }));
}

function startForget() {
  const dialog = $("forget-dialog");
  $("forget").addEventListener("click", () => {
    fill($("forget-question"), `Forget all that was measured of ${address}?`);
    dialog.showModal();
  });
  $("forget-no").addEventListener("click", () => dialog.close());
  $("forget-yes").addEventListener("click", () => act(dialog, async () => {
    const { forgotten } = await post("/v1/forget", { address });
    return forgotten ? "is forgotten" : "nothing was known";
  }));
}

// The map of networks: clients by round-trip time and loss, on the plane where HTTP/2 and HTTP/3 are as fast.

import { json, poll } from "./api.js";
import { $, element, fill, keyed, remember, svg } from "./dom.js";
import { bytes, count, micros, NAMES, rate, saving, share } from "./units.js";

const [WIDTH, HEIGHT] = [640, 420];
const AREA = { left: 52, right: 632, top: 10, bottom: 376 };
const RTT = [1e3, 1e6];
const LOSS = [1e-4, 0.2];

const x = (us) => AREA.left + (AREA.right - AREA.left) * part(us, RTT);
const y = (loss) => AREA.bottom - (AREA.bottom - AREA.top) * part(loss, LOSS);
const part = (value, [from, to]) => Math.log(Math.min(Math.max(value, from), to) / from) / Math.log(to / from);

let dots = [];
let active = null;
let chosen = null;
let choose = () => {};
let picture;
let layer;

export function start(onChoose) {
  choose = onChoose;
  build();
  legend();
  const again = poll($("map"), 5000, async () => {
    const size = $("map-size").value;
    show(await json(`/v1/map${size ? `?size=${size}` : ""}`));
  });
  remember($("map-size"), "map-size", again);
}

// Marks the dot of a client that was chosen elsewhere.
export function mark(address) {
  chosen = address;
  draw();
}

function build() {
  const plane = svg("g", { id: "map-plane" });
  const axes = svg("g");
  for (const [us, text] of [[1e3, "1 ms"], [1e4, "10 ms"], [1e5, "100 ms"], [1e6, "1 s"]]) {
    axes.append(svg("line", { class: "axis", x1: x(us), x2: x(us), y1: AREA.top, y2: AREA.bottom }),
      svg("text", { x: x(us), y: AREA.bottom + 15, "text-anchor": us === 1e6 ? "end" : "middle" }, text));
  }
  for (const [loss, text] of [[1e-4, "0.01 %"], [1e-3, "0.1 %"], [1e-2, "1 %"], [1e-1, "10 %"]]) {
    axes.append(svg("line", { class: "axis", x1: AREA.left, x2: AREA.right, y1: y(loss), y2: y(loss) }),
      svg("text", { x: AREA.left - 6, y: y(loss) + 4, "text-anchor": "end" }, text));
  }
  axes.append(svg("text", { x: (AREA.left + AREA.right) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, "round-trip time"),
    svg("text", { x: 12, y: AREA.top + 120, transform: `rotate(-90 12 ${AREA.top + 120})`, "text-anchor": "middle" }, "lost packets"));
  layer = svg("g", { id: "map-dots", role: "listbox", tabindex: "0", "aria-label": "Clients by round-trip time and loss. Arrow keys move, Enter chooses." });
  picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-labelledby": "map-title" }, plane, axes, layer);
  $("map-chart").append(picture);
  layer.addEventListener("keydown", onKey);
  layer.addEventListener("focus", () => {
    active ??= dots[0] ?? null;
    draw();
  });
  layer.addEventListener("blur", draw);
}

function onKey(event) {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (event.key === "Enter" || event.key === " ") {
    if (active) choose(active.address);
  } else if (moves[event.key]) {
    active = nearest(active, moves[event.key]) ?? active;
  } else if (event.key === "Home" || event.key === "End") {
    active = event.key === "Home" ? dots[0] : dots.at(-1);
  } else {
    return;
  }
  event.preventDefault();
  draw();
}

// The next dot in a direction: near, and not far beside it.
function nearest(from, [dx, dy]) {
  if (!from) return dots[0];
  let best = null;
  let least = Infinity;
  for (const dot of dots) {
    const along = (dot.x - from.x) * dx + (dot.y - from.y) * dy;
    const beside = Math.abs((dot.x - from.x) * dy) + Math.abs((dot.y - from.y) * dx);
    const cost = along + 3 * beside;
    if (dot !== from && along > 0 && cost < least) [best, least] = [dot, cost];
  }
  return best;
}

function show(map) {
  drawPlane(map.plane);
  const was = active?.key;
  dots = map.dots.map((dot) => ({ ...dot, x: x(dot.min_rtt_us), y: y(dot.loss) }));
  active = dots.find(({ key }) => key === was) ?? null;
  draw();
  const { plane } = map;
  fill($("map-text"),
    `${count(map.drawn)} clients of ${count(map.known)}` +
    (map.without_path ? `; of ${count(map.without_path)} the path is not known yet` : "") +
    `. On the line both versions load ${bytes(plane.size)} equally fast at ${rate(plane.rate_bps)}, says the model.`);
}

const radius = ({ clients }) => Math.min(3.5 + 1.6 * Math.log2(clients + 1), 18);

function look(dot) {
  const held = dot.group === "hold_back" ? " held" : "";
  const failing = dot.group === "udp" ? " failing" : "";
  const on = document.activeElement === layer && dot === active ? " active" : "";
  const is = dot.address === chosen ? " chosen" : "";
  return `dot ${dot.version}${held}${failing}${on}${is}`;
}

// A circle is HTTP/2, a diamond HTTP/3, a square one whose UDP fails: colours alone would not do.
function shape({ version, group }, px, py, r) {
  if (group === "udp") return `M${px - r} ${py - r}h${2 * r}v${2 * r}h${-2 * r}z`;
  if (version === "h3") return `M${px} ${py - r * 1.25}l${r * 1.25} ${r * 1.25}l${-r * 1.25} ${r * 1.25}l${-r * 1.25} ${-r * 1.25}z`;
  return `M${px - r} ${py}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
}

function describe(dot) {
  const who = dot.clients === 1 ? dot.address : `${count(dot.clients)} clients, ${dot.address} seen last`;
  const [, saves] = saving(dot.saves);
  const gets = dot.group === "hold_back" ? `held back on ${NAMES[dot.version]}` : `${NAMES[dot.version]}, saves ${saves}`;
  return `${who}: RTT ${micros(dot.min_rtt_us)}, ${share(dot.loss)} lost; ${gets}${dot.group === "udp" ? "; UDP fails" : ""}`;
}

function draw() {
  const make = (dot) => {
    const node = svg("path", { role: "option", id: `dot-${dot.key}` }, svg("title"));
    node.addEventListener("click", () => {
      active = dots.find(({ key }) => key === dot.key) ?? null;
      if (active) choose(active.address);
    });
    return node;
  };
  // The largest are at the bottom.
  keyed(layer, [...dots].sort((a, b) => b.clients - a.clients), ({ key }) => key, make, (node, dot) => {
    node.setAttribute("class", look(dot));
    node.setAttribute("d", shape(dot, dot.x, dot.y, radius(dot)));
    node.setAttribute("aria-label", describe(dot));
    node.setAttribute("aria-selected", String(dot.address === chosen));
    fill(node.firstChild, describe(dot));
  });
  if (active) layer.setAttribute("aria-activedescendant", `dot-${active.key}`);
  else layer.removeAttribute("aria-activedescendant");
}

let shownPlane = "";

function drawPlane(plane) {
  const signature = JSON.stringify(plane);
  if (signature === shownPlane) return;
  shownPlane = signature;
  const xs = plane.min_rtt_us.map(x);
  const ys = plane.loss.map(y);
  const faster = { h2: "", h3: "" };
  let zero = "";
  for (let row = 0; row + 1 < xs.length; row++) {
    for (let column = 0; column + 1 < ys.length; column++) {
      const corners = [[row, column], [row + 1, column], [row + 1, column + 1], [row, column + 1]]
        .map(([i, j]) => ({ x: xs[i], y: ys[j], gain: plane.gain[i][j] }));
      if (corners.some(({ gain }) => gain === null)) continue;
      const mean = corners.reduce((sum, { gain }) => sum + gain, 0);
      const [from, to] = [corners[0], corners[2]];
      faster[mean > 0 ? "h3" : "h2"] +=
        `M${from.x.toFixed(1)} ${from.y.toFixed(1)}H${(to.x + 0.3).toFixed(1)}V${(to.y - 0.3).toFixed(1)}H${from.x.toFixed(1)}z`;
      zero += crossing(corners);
    }
  }
  const words = (version, px, py, anchor) => svg("text", { x: px, y: py, class: "strong", "text-anchor": anchor }, `${NAMES[version]} is faster`);
  const corner = (loss, us) => nearestGain(plane, us, loss);
  const labels = [[AREA.right - 10, AREA.top + 20, "end", 0.15, 7e5], [AREA.left + 10, AREA.bottom - 10, "start", 2e-4, 2e3]]
    .map(([px, py, anchor, loss, us]) => words(corner(loss, us) > 0 ? "h3" : "h2", px, py, anchor));
  $("map-plane").replaceChildren(
    svg("path", { class: "tint-h2", d: faster.h2 }), svg("path", { class: "tint-h3", d: faster.h3 }),
    svg("path", { class: "zero", d: zero }), ...labels);
}

function nearestGain(plane, us, loss) {
  const place = (values, value) => values.reduce((best, one, at) => (Math.abs(Math.log(one / value)) < Math.abs(Math.log(values[best] / value)) ? at : best), 0);
  return plane.gain[place(plane.min_rtt_us, us)][place(plane.loss, loss)] ?? 0;
}

// The line through a cell where the gain changes its sign.
function crossing(corners) {
  const points = [];
  corners.forEach((a, place) => {
    const b = corners[(place + 1) % 4];
    if (a.gain > 0 === b.gain > 0) return;
    const t = a.gain / (a.gain - b.gain);
    points.push(`${(a.x + t * (b.x - a.x)).toFixed(1)} ${(a.y + t * (b.y - a.y)).toFixed(1)}`);
  });
  // At a saddle there are four.
  return points.map((point, place) => `${place % 2 ? "L" : "M"}${point}`).join("");
}

function legend() {
  const entries = [
    [{ version: "h2", group: "normal" }, "gets HTTP/2"], [{ version: "h3", group: "normal" }, "gets HTTP/3"],
    [{ version: "h3", group: "hold_back" }, "held back"], [{ version: "h2", group: "udp" }, "UDP fails"],
  ];
  $("map-legend").replaceChildren(...entries.map(([dot, text]) => element("li", "",
    svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { class: look(dot), d: shape(dot, 8, 8, 5) })), ` ${text}`)));
}

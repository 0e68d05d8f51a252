// Charts as SVG, drawn anew at each change. Each has its text alternative.

import { element, fill, svg } from "./dom.js";

const WIDTH = 320;
const HEIGHT = 96;
const LEFT = 4;
const RIGHT = 4;

// A chart of lines over time. `update(times, series)` draws it; series: { name, c, values }.
export function lines(host, title, unit) {
  const caption = element("figcaption");
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + 16}`, role: "img" });
  const cursor = svg("line", { class: "axis", y1: 6, y2: HEIGHT, visibility: "hidden" });
  const drawn = svg("g");
  picture.append(drawn, cursor);
  host.append(element("figure", "", caption, picture));
  let times = [];
  let series = [];
  let at = null;

  const readout = () => {
    const place = at ?? times.length - 1;
    const when = at === null || !times.length ? "now" : new Date(times[place] * 1000).toISOString().slice(11, 19);
    const parts = series.map(({ name, c, values }) => [c, ` ${name ? `${name} ` : ""}${unit(values[place])}`]);
    fill(caption, ["strong", title], ...parts, ["faint", at === null ? "" : `  at ${when}`]);
  };
  picture.addEventListener("pointermove", (event) => {
    if (!times.length) return;
    const { left, width } = picture.getBoundingClientRect();
    const part = Math.min(Math.max((event.clientX - left) / width, 0), 1);
    at = Math.round(part * (times.length - 1));
    const x = LEFT + (WIDTH - LEFT - RIGHT) * (at / Math.max(times.length - 1, 1));
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    readout();
  });
  picture.addEventListener("pointerleave", () => {
    at = null;
    cursor.setAttribute("visibility", "hidden");
    readout();
  });

  return (newTimes, newSeries) => {
    [times, series] = [newTimes, newSeries];
    const peak = Math.max(...series.flatMap(({ values }) => values.filter((value) => value !== null)), 0);
    const top = nice(peak);
    const x = (place) => LEFT + (WIDTH - LEFT - RIGHT) * (place / Math.max(times.length - 1, 1));
    const y = (value) => HEIGHT - (HEIGHT - 18) * (value / (top || 1));
    const grid = [0, 0.5, 1].map((part) => svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: y(part * top), y2: y(part * top) }));
    const label = svg("text", { x: 0, y: y(top) - 4 }, top ? unit(top) : "");
    const from = svg("text", { x: 0, y: HEIGHT + 13 }, times.length > 1 ? `${Math.round((times.at(-1) - times[0]) / 60)} min ago` : "");
    const to = svg("text", { x: WIDTH, y: HEIGHT + 13, "text-anchor": "end" }, "now");
    const paths = series.map(({ c, values, dashed }) =>
      svg("path", { class: `series s-${c}${dashed ? " dashed" : ""}`, d: line(values, x, y) }));
    drawn.replaceChildren(...grid, label, from, to, ...paths);
    const said = series.map(({ name, values }) => {
      const known = values.filter((value) => value !== null);
      return known.length ? `${name || title}: now ${unit(values.at(-1))}, most ${unit(Math.max(...known))}` : `${name || title}: nothing`;
    });
    picture.setAttribute("aria-label", `${title}, over time. ${said.join("; ")}`);
    readout();
  };
}

function line(values, x, y) {
  let path = "";
  let pen = false;
  values.forEach((value, place) => {
    if (value === null) {
      pen = false;
      return;
    }
    path += `${pen ? "L" : "M"}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
    if (!pen && (values[place + 1] ?? null) === null) path += "h1.5";
    pen = true;
  });
  return path;
}

// The next 1, 2 or 5 times a power of ten.
function nice(peak) {
  if (!peak) return 0;
  const power = 10 ** Math.floor(Math.log10(peak));
  return [1, 2, 5, 10].find((step) => step * power >= peak * 0.999) * power;
}

// An interval on an axis of ratios around 1: { mean, low, high }.
export function ratioBar(host, ratio, { large, name }) {
  const [width, height] = large ? [560, 84] : [220, 22];
  const reach = Math.max(0.12, ...(ratio ? [Math.abs(ratio.low - 1), Math.abs(ratio.high - 1)] : [])) * 1.15;
  const x = (value) => width / 2 + (Math.min(Math.max((value - 1) / reach, -1), 1) * width) / 2.1;
  const middle = large ? 34 : height / 2;
  const parts = [svg("line", { class: "axis", x1: 0, x2: width, y1: middle, y2: middle }),
    svg("line", { class: "zero", x1: x(1), x2: x(1), y1: large ? 10 : 2, y2: large ? 58 : height - 2 })];
  if (ratio) {
    const c = ratio.high < 1 ? "good" : ratio.low > 1 ? "bad" : "faint";
    parts.push(
      svg("line", { class: `bar-line s-${c}`, x1: x(ratio.low), x2: x(ratio.high), y1: middle, y2: middle }),
      svg("circle", { class: `s-${c}`, cx: x(ratio.mean), cy: middle, r: large ? 7 : 4 }));
  }
  if (large) {
    const text = (value, anchor, words) => svg("text", { x: x(value), y: 76, "text-anchor": anchor }, words);
    const step = nice(reach * 40) / 100;
    parts.push(text(1, "middle", "as without"));
    for (const side of [-1, 1]) {
      const at = 1 + side * step;
      if (Math.abs(x(at) - x(1)) < 70) continue;
      parts.push(svg("line", { class: "axis", x1: x(at), x2: x(at), y1: 28, y2: 40 }),
        text(at, "middle", `${Math.round(step * 100)} % ${side < 0 ? "sooner" : "later"}`));
    }
  }
  host.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name }, ...parts));
  if (!large) host.firstChild.style.width = "13rem";
}

// Bars from p10 to p90 with the median, on a logarithmic axis of ratios around 1.
export function ranges(host, rows, name) {
  const [width, row, left] = [640, 32, 190];
  const height = rows.length * row + 30;
  const ends = [0.25, 4];
  const x = (value) => {
    const part = Math.log(Math.min(Math.max(value, ends[0]), ends[1]) / ends[0]) / Math.log(ends[1] / ends[0]);
    return left + (width - left - 10) * part;
  };
  const ticks = [[0.25, "a quarter"], [0.5, "half"], [1, "as predicted"], [2, "twice"], [4, "4 times"]];
  const parts = ticks.flatMap(([at, words]) => [
    svg("line", { class: at === 1 ? "zero" : "axis", x1: x(at), x2: x(at), y1: 4, y2: height - 22 }),
    svg("text", { x: x(at), y: height - 6, "text-anchor": at === 4 ? "end" : at === 0.25 ? "start" : "middle" }, words)]);
  rows.forEach(({ label, note, c, p10, p50, p90 }, place) => {
    const y = place * row + row / 2 + 2;
    parts.push(
      svg("text", { class: "strong", x: 0, y: y - 1 }, label), svg("text", { x: 0, y: y + 11 }, note),
      svg("line", { class: `bar-line s-${c}`, x1: x(p10), x2: x(p90), y1: y, y2: y, opacity: 0.45 }),
      svg("circle", { class: `s-${c}`, cx: x(p50), cy: y, r: 5 }));
  });
  host.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name }, ...parts));
}

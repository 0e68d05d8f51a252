// Quantities for people.

export const NAMES = { h1: "HTTP/1.1", h2: "HTTP/2", h3: "HTTP/3" };
export const CONTROLS = { cubic: "CUBIC", floor: "CUBIC and a floor", bbr: "BBR" };

export const version = (name) => [name, NAMES[name] ?? name];

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "never";
  const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([s]) => seconds >= 2 * s) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit}`;
}

export function digits(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  return size >= 99.5 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(2)));
}

function scaled(value, units) {
  if (value === null || value === undefined) return "–";
  const step = value < 1 ? 0 : Math.min(Math.floor(Math.log10(value) / 3), units.length - 1);
  return `${digits(value / 1000 ** step)} ${units[step]}`;
}

export const bytes = (value) => scaled(value, ["B", "kB", "MB", "GB", "TB"]);
export const rate = (value) => scaled(value, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]);
export const micros = (value) => scaled(value, ["µs", "ms", "s"]);
export const seconds = (value) => micros(value === null || value === undefined ? value : value * 1e6);
export const count = (value) => Math.round(value).toLocaleString("en");
export const share = (value) => (value === null || value === undefined ? "–" : `${digits(value * 100)} %`);
export const clock = (time) => (time ? new Date(time) : new Date()).toISOString().slice(11, 23);
export const day = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 10);

// A ratio of load times, as a change: 0.92 is "8 % sooner".
export function change(ratio) {
  const part = Math.round(Math.abs(1 - ratio) * 1000) / 10;
  if (part === 0) return "the same";
  return `${part >= 10 ? Math.round(part) : part} % ${ratio < 1 ? "sooner" : "later"}`;
}

export function interval({ mean, low, high }) {
  const signed = (ratio) => {
    const part = (ratio - 1) * 100;
    return `${part > 0 ? "+" : part < 0 ? "−" : ""}${Math.abs(part).toFixed(Math.abs(part) < 10 ? 1 : 0)}`;
  };
  return `${signed(mean)} % (${signed(low)} to ${signed(high)} %)`;
}

// The class and the text of a saving.
export function saving(saves) {
  if (saves === null || saves === undefined) return ["faint", "–"];
  if (Math.abs(saves) < 0.005) return ["faint", "nothing"];
  return saves > 0 ? ["good", share(saves)] : ["bad", `−${share(-saves)}`];
}

const AMOUNTS = {
  B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
  bps: 1, kbps: 1e3, Mbps: 1e6, Gbps: 1e9, "%": 0.01,
};
const SECONDS = { ns: 1e-9, us: 1e-6, "µs": 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600, d: 86400 };

// A time of the API, such as "490ms", in seconds.
export function parse(text) {
  const found = /^([\d.]+)([a-zµ]+)$/.exec(text ?? "");
  return found ? Number(found[1]) * SECONDS[found[2]] : null;
}

// A size, rate or loss of the API, such as "20Mbps" or "1%".
export function amount(text) {
  const found = /^([\d.]+)([a-zA-Z%]+)$/.exec(text ?? "");
  return found ? Number(found[1]) * (AMOUNTS[found[2]] ?? NaN) : null;
}

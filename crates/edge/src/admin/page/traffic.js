// Traffic of the last quarter of an hour.

import { json, poll } from "./api.js";
import { lines } from "./charts.js";
import { $ } from "./dom.js";
import { digits, micros, NAMES, rate } from "./units.js";

const VERSIONS = ["h1", "h2", "h3"];

export function start() {
  const host = $("charts");
  const perSecond = (value) => (value === null || value === undefined ? "–" : `${digits(value)}/s`);
  const cores = (value) => (value === null || value === undefined ? "–" : digits(value));
  const time = (value) => micros(value ?? null);
  const charts = {
    requests: lines(host, "Requests", perSecond),
    bits: lines(host, "Throughput", rate),
    errors: lines(host, "Errors", perSecond),
    p50: lines(host, "Median response time", time),
    p95: lines(host, "p95 of the response time", time),
    cpu: lines(host, "CPU cores in use", cores),
  };
  poll($("traffic"), 5000, async () => {
    const { points } = await json("/v1/series");
    const times = points.map(({ t }) => t);
    const of = (pick) => points.map((point) => pick(point) ?? null);
    const byVersion = (name) => VERSIONS.filter((version) => points.some((point) => point[name][version]))
      .map((version) => ({ name: NAMES[version], c: version, values: of((point) => point[name][version]) }));
    const orNone = (series) => (series.length ? series : [{ name: "", c: "faint", values: of(() => 0) }]);
    charts.requests(times, orNone(byVersion("requests_per_s")));
    charts.bits(times, [{ name: "", c: "ink", values: of((point) => point.bits_per_s) }]);
    charts.errors(times, [
      { name: "5xx or none", c: "bad", values: of((point) => point.server_errors_per_s) },
      { name: "4xx", c: "faint", values: of((point) => point.client_errors_per_s), dashed: true },
    ]);
    charts.p50(times, byVersion("p50_us"));
    charts.p95(times, byVersion("p95_us"));
    charts.cpu(times, [{ name: "", c: "ink", values: of((point) => point.cpu) }]);
  });
}

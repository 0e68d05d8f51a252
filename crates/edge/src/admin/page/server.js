// The server itself: its facts, certificates, upstreams and fleet; and the model's calibration.

import { json, poll } from "./api.js";
import { ranges } from "./charts.js";
import { $, define, fill, table } from "./dom.js";
import * as egress from "./egress.js";
import { CONTROLS, count, day, micros, NAMES, span, version } from "./units.js";

const SOON = 14 * 86400;

export function start() {
  poll(null, 3000, showStatus);
  poll($("server"), 30000, showCertificates);
  poll($("model"), 15000, showModel);
}

export async function showStatus() {
  const status = await json("/v1/status");
  fill($("headline"), `version ${status.version}`);
  fill($("uptime"), `up for ${span(status.uptime_s)}`);
  const perVersion = (counts) => Object.entries(counts).flatMap(([name, number]) => [version(name), ` ${count(number)}   `]);
  define($("facts"), [
    ["Serves", status.serves],
    ["Addresses", [...status.listen, ...status.cleartext].join(", ")],
    ["HTTP version", status.policy],
    ["Congestion control", status.congestion],
    ["Connections open", ...perVersion(status.connections)],
    ["Requests", ...perVersion(status.requests)],
    ["Clients and prefixes known", count(status.clients)],
  ]);
  showUpstreams(status.upstreams ?? []);
  $("fleet").hidden = !status.fleet;
  if (status.fleet) showFleet(status.fleet);
  egress.show(status.egress);
}

function showUpstreams(upstreams) {
  $("upstreams").hidden = !upstreams.length;
  const number = (name) => ({ c: "number", parts: (upstream) => count(upstream[name]) });
  table($("upstream-rows"), upstreams, ({ url }) => url, [
    { c: "", parts: ({ url }) => url },
    { c: "narrow", parts: ({ up }) => [[up ? "" : "bad", up ? "up" : "avoided"]] },
    number("under_way"), number("requests"), number("failures"), number("retries"),
  ]);
}

async function showCertificates() {
  const reports = await json("/v1/certificates");
  const rows = reports.flatMap((report, place) => (report.certificates ?? []).map((one) => ({ ...report, one, key: `${place} ${one.key}` })));
  $("certificates").hidden = !rows.length;
  const left = ({ one }) => one.not_after - Date.now() / 1000;
  const isLate = (row) => row.source !== "self-signed" && left(row) < SOON;
  table($("certificate-rows"), rows, ({ key }) => key, [
    { c: "", parts: ({ names, site }) => (names?.length ? names.join(", ") : site ?? "") },
    { c: "narrow", parts: ({ source }) => source },
    { c: "narrow", parts: ({ one }) => one.key },
    { c: "narrow", parts: ({ one }) => one.issuer },
    { c: "narrow", parts: (row) => [[isLate(row) ? "bad" : "", `${day(row.one.not_after)}, ${left(row) > 0 ? `in ${span(left(row))}` : "ended"}`]] },
    { c: "wide", parts: ({ acme, one }) => [
      acme?.state ?? "", ["bad", acme?.error ? ` ${acme.error}` : ""],
      ["faint", one.ocsp && one.ocsp.state !== "none" ? ` OCSP ${one.ocsp.state}` : ""]] },
  ]);
}

function showFleet(fleet) {
  const fault = fleet.fault ?? fleet.write_fault;
  fill($("store"),
    `This edge is ${fleet.name}. `,
    fault ? ["bad", `For ${span(Math.round(fleet.faulty_ms / 1000))}: ${fault}`]
      : fleet.up ? `${fleet.store} answers in ${micros(fleet.answer_us)}, with ${fleet.keys ?? "unknown"} keys.`
      : `${fleet.store} is not reached yet.`,
    ["bad", fleet.duplicate ? " Another process has the same name." : ""]);
  const own = fleet.members.find((member) => member.own);
  table($("members"), fleet.members, ({ name }) => name, [
    { c: "", parts: (member) => [member.name, ["faint", member.own ? " this edge" : ""]] },
    { c: "narrow", parts: (member) => member.pop ?? "" },
    { c: "narrow", parts: (member) => member.version },
    { c: "narrow", parts: (member) => [[own && member.config !== own.config ? "bad" : "", member.config]] },
    { c: "number", parts: (member) => `${member.skew_ms < 0 ? "" : "+"}${member.skew_ms} ms` },
    { c: "number", parts: (member) => span(Math.round(member.lag_ms / 1000)) },
    { c: "narrow", parts: (member) => [[member.silent ? "bad" : "faint", `${span(Math.round(member.heard_ms / 1000))} ago`]] },
  ]);
}

async function showModel() {
  const model = await json("/v1/model");
  fill($("model-about"), model.description);
  fill($("model-text"), model.arms.length
    ? `Measured by predicted load time, of ${count(model.clients)} clients: the middle four fifths of them, and the median.`
    : "No client has an outcome to compare the model with yet.");
  const rows = model.arms.map(({ arm, clients, responses, p10, p50, p90 }) => ({
    label: `${NAMES[arm.slice(0, 2)]} ${CONTROLS[arm.slice(3)] ?? ""}`, c: arm.slice(0, 2), p10, p50, p90,
    note: `${count(clients)} clients, ${count(responses)} responses`,
  }));
  const said = rows.map(({ label, p10, p50, p90 }) => `${label}: ${p50.toFixed(2)} (${p10.toFixed(2)} to ${p90.toFixed(2)})`);
  $("model-chart").hidden = !rows.length;
  ranges($("model-chart"), rows, `Measured by predicted load time. ${said.join("; ")}`);
}

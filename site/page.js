// Shows by which protocol, and how fast, each part of the page came, from the browser's
// own timings (Resource Timing, `nextHopProtocol`).
"use strict";

const NAMES = { h1: "HTTP/1.1", h2: "HTTP/2", h3: "HTTP/3", cached: "from cache" };
// Entries that came in the same round began after this time.
let roundStart = 0;
let round = 1;

const images = [...document.querySelectorAll(".prints img")];

function protocolOf(entry) {
  if (entry.nextHopProtocol === "h3" || entry.nextHopProtocol === "h2") return entry.nextHopProtocol;
  return entry.nextHopProtocol.startsWith("http/1") ? "h1" : "cached";
}

function element(name, className, text) {
  const node = document.createElement(name);
  node.className = className;
  if (text) node.textContent = text;
  return node;
}

function bytes(count) {
  return count < 1e6 ? `${Math.round(count / 1e3)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

function milliseconds(time) {
  return `${time < 10 ? time.toFixed(1) : Math.round(time)} ms`;
}

// Counts entries by protocol, the newest protocol first: [["h3", 9], ["h2", 3]].
function tally(entries) {
  const counts = { h3: 0, h2: 0, h1: 0, cached: 0 };
  for (const entry of entries) counts[protocolOf(entry)] += 1;
  return Object.entries(counts).filter(([, count]) => count > 0);
}

function entriesOfRound() {
  const entries = performance.getEntriesByType("resource");
  const isPart = (e) => e.name.startsWith(location.origin) && e.initiatorType !== "fetch";
  const here = entries.filter((e) => isPart(e) && e.startTime >= roundStart);
  const navigation = round === 1 ? performance.getEntriesByType("navigation") : [];
  return [...navigation, ...here].sort((a, b) => a.startTime - b.startTime);
}

function showRound(entries) {
  const counts = tally(entries);
  const first = Math.min(...entries.map((entry) => entry.startTime));
  const last = Math.max(...entries.map((entry) => entry.responseEnd));
  const words = counts.map(([protocol, count]) => `${count} by ${NAMES[protocol]}`).join(", ");
  const size = entries.reduce((sum, entry) => sum + entry.transferSize, 0);
  document.getElementById("summary").textContent =
    `${entries.length} requests in ${milliseconds(last - first)}, ${bytes(size)}: ${words}.`;

  const item = element("li", "");
  const title = element("b", "", round === 1 ? "Page" : `Again ${round - 1}`);
  item.append(title, ` ${milliseconds(last - first)}`);
  const share = element("span", "share");
  share.title = words;
  for (const [protocol, count] of counts) {
    const part = element("i", protocol);
    part.style.flexGrow = count;
    share.append(part);
  }
  item.append(share);
  document.getElementById("rounds").append(item);
}

function showWaterfall(entries) {
  const first = Math.min(...entries.map((entry) => entry.startTime));
  const span = Math.max(...entries.map((entry) => entry.responseEnd)) - first || 1;
  const rows = entries.flatMap((entry) => {
    const protocol = protocolOf(entry);
    const path = new URL(entry.name).pathname;
    const track = element("span", "track");
    const bar = element("span", `bar ${protocol}`);
    bar.style.left = `${((entry.startTime - first) / span) * 100}%`;
    bar.style.width = `${((entry.responseEnd - entry.startTime) / span) * 100}%`;
    track.append(bar);
    return [
      element("span", "", path.slice(path.lastIndexOf("/") + 1) || "this page"),
      track,
      element("span", `protocol ${protocol}`, NAMES[protocol]),
      element("span", "time", milliseconds(entry.responseEnd - entry.startTime)),
    ];
  });
  document.getElementById("waterfall").replaceChildren(...rows);
}

function showBadges(entries) {
  for (const image of images) {
    const entry = entries.findLast((candidate) => candidate.name === image.src);
    if (!entry) continue;
    const protocol = protocolOf(entry);
    const badge = element("span", `badge ${protocol}`);
    badge.textContent = `${NAMES[protocol]} · ${milliseconds(entry.duration)}`;
    image.parentElement.querySelector(".badge")?.remove();
    image.parentElement.append(badge);
  }
}

// What the browser used, in words: of the whole round.
function used(entries) {
  const counts = tally(entries).filter(([protocol]) => protocol !== "cached");
  if (counts.length === 0) return "This browser had all of it in its cache.";
  if (counts.length === 1) return `This browser used ${NAMES[counts[0][0]]} for all of it.`;
  const parts = counts.map(([protocol, count]) => `${NAMES[protocol]} for ${count}`);
  return `This browser used ${parts.join(" and ")} of the requests, since it changed on the way.`;
}

// What the next load will come over, by the offer of the server (Alt-Svc, RFC 7838).
function next(altSvc, now) {
  const offer = /h3="[^"]*"(?:.*?ma=(\d+))?/.exec(altSvc ?? "");
  if (offer && now === "h3") return "The server goes on offering HTTP/3, so the next load comes over it, too.";
  if (offer) {
    const time = Number(offer[1] ?? 86400);
    const long = time >= 7200 ? `${Math.round(time / 3600)} hours` : time >= 120 ? `${Math.round(time / 60)} minutes` : `${time} s`;
    return `The server offers HTTP/3 for ${long}. A browser that trusts the certificate connects over it in the ` +
      "background, and its next load may come over HTTP/3; one that does not stays on what it has.";
  }
  const why = now === "h3" ? "The server asks the browser to leave HTTP/3" : "The server offers no HTTP/3 to you now";
  return `${why}: the next load comes over HTTP/2.`;
}

async function showNext(entries) {
  const place = document.getElementById("next");
  const [protocol] = tally(entries).find(([name]) => name !== "cached") ?? ["h2"];
  place.textContent = used(entries);
  const answer = await fetch(location.href, { method: "HEAD", cache: "no-store" }).catch(() => null);
  if (answer) place.textContent += ` ${next(answer.headers.get("alt-svc"), protocol)}`;
}

function show() {
  const entries = entriesOfRound();
  if (entries.length === 0) return;
  showRound(entries);
  showWaterfall(entries);
  showBadges(entries);
  showNext(entries);
}

// Fetches all images anew; the query keeps them from coming out of the browser's cache.
async function loadAgain() {
  const button = document.getElementById("again");
  button.disabled = true;
  performance.clearResourceTimings();
  roundStart = performance.now();
  round += 1;
  const query = `?again=${Date.now()}`;
  await Promise.allSettled(
    images.map((image) => {
      image.src = image.src.split("?")[0] + query;
      return image.decode();
    }),
  );
  show();
  button.disabled = false;
}

addEventListener("load", () => {
  const button = document.getElementById("again");
  button.hidden = false;
  button.addEventListener("click", loadAgain);
  // The document's own entry is complete only after this event.
  setTimeout(show);
});

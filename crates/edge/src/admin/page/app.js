// The page: begins its parts, and keeps them going.

import * as api from "./api.js";
import * as clients from "./clients.js";
import { $, fill, remember } from "./dom.js";
import * as egress from "./egress.js";
import * as events from "./events.js";
import * as gain from "./gain.js";
import * as map from "./map.js";
import * as server from "./server.js";
import * as traffic from "./traffic.js";

const CLIENT = "#client=";

function theme() {
  const wanted = $("theme").value;
  if (wanted) document.documentElement.dataset.theme = wanted;
  else delete document.documentElement.dataset.theme;
}

function locked() {
  api.stop();
  $("login").hidden = false;
  fill($("headline"), api.hasToken() ? "that is not its token" : "locked");
  $("token").focus();
}

function failed(error) {
  if (error instanceof api.Unauthorized) return locked();
  if (error instanceof TypeError) fill($("headline"), ["bad", "not reachable"]);
  else if (!(error instanceof api.NotThere)) fill($("headline"), ["bad", error.message]);
}

// Follows the events, again and again, as long as the token is right.
async function follow() {
  for (;;) {
    try {
      await events.read([egress.take, clients.take]);
    } catch (error) {
      if (error instanceof api.Unauthorized) return;
    }
    await new Promise((wake) => setTimeout(wake, 1000));
  }
}

async function begin() {
  try {
    await server.showStatus();
  } catch (error) {
    if (error instanceof api.Unauthorized) return locked();
  }
  $("login").hidden = true;
  api.begin(failed);
  following ??= follow().finally(() => (following = null));
}

let following = null;

remember($("theme"), "theme", theme);
theme();
gain.start();
traffic.start();
map.start(clients.choose);
clients.start((address) => {
  map.mark(address);
  history.replaceState(null, "", `${CLIENT}${address}`);
});
server.start();
egress.start();
events.start();

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.useToken($("token").value.trim());
  begin();
});
if (location.hash.startsWith(CLIENT)) clients.choose(decodeURIComponent(location.hash.slice(CLIENT.length)));
begin();

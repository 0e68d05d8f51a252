// An application on Express: a page, JSON, forms, Server-Sent Events and WebSocket.
//
// usage: node app.js PORT

"use strict";

const http = require("node:http");
const express = require("express");
const { WebSocketServer } = require("ws");

// Tells in its title what came by WebSocket and by an event.
const PAGE = `<!doctype html><title>waiting</title><script>
  const came = {};
  const note = (name) => (message) => {
    came[name] = message.data;
    if (Object.keys(came).length === 2) document.title = came.event + " " + came.echo;
  };
  const events = new EventSource("/api/events");
  events.onmessage = note("event");
  events.onopen = () => fetch("/api/publish", { method: "POST", body: "published" });
  const socket = new WebSocket("wss://" + location.host + "/api/chat");
  socket.onmessage = note("echo");
  socket.onopen = () => socket.send("echoed");
</script>`;

const app = express();
// hikyaku is the one proxy, and names clients by X-Forwarded-*.
app.set("trust proxy", "loopback");

app.get("/", (request, response) => response.type("html").send(PAGE));
app.get("/health", (request, response) => response.send("ok"));
app.get("/go", (request, response) => response.redirect(`${request.protocol}://${request.host}/`));
app.get("/api/seen", (request, response) => {
  const { ip, protocol, secure, host, query } = request;
  response.cookie("seen", "1", { secure: true, httpOnly: true }).json({ ip, protocol, secure, host, query });
});
app.get("/api/words", (request, response) => response.json(Array(2000).fill("word")));
app.post("/api/notes", express.json(), (request, response) =>
  response.status(201).location("/api/notes/1").json(request.body),
);
app.post("/api/form", express.urlencoded({ extended: false }), (request, response) => response.json(request.body));

const readers = new Set();
app.get("/api/events", (request, response) => {
  response.set({ "Content-Type": "text/event-stream", "Cache-Control": "no-cache" });
  response.write(": open\n\n");
  readers.add(response);
  request.on("close", () => readers.delete(response));
});
app.get("/api/readers", (request, response) => response.json(readers.size));
app.post("/api/publish", express.text(), (request, response) => {
  for (const reader of readers) reader.write(`data: ${request.body}\n\n`);
  response.sendStatus(204);
});

const server = http.createServer(app);
const chat = new WebSocketServer({ server, path: "/api/chat" });
chat.on("connection", (socket) => socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary })));

server.listen(Number(process.argv[2]), "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));

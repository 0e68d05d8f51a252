//! A server's admin address with an API of made-up answers: a hundred thousand clients, and what they gain.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

/// Clients that the API says there are.
pub(crate) const CLIENTS: usize = 100_000;
/// Dots that it gives at most.
pub(crate) const DOTS: usize = 600;

/// The API, which answers until the process ends.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    lists: Arc<AtomicUsize>,
}

impl Fake {
    /// Begins to answer; the files of the page are those of the server at `admin`.
    pub(crate) fn start(admin: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let lists = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&lists);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let lists = Arc::clone(&counted);
                thread::spawn(move || answer(stream, admin, &lists));
            }
        });
        Self { address, lists }
    }

    /// Lists of clients that were asked for so far.
    pub(crate) fn lists(&self) -> usize {
        self.lists.load(Ordering::Relaxed)
    }
}

/// Answers one request. Browsers may leave at any time.
fn answer(stream: TcpStream, admin: SocketAddr, lists: &AtomicUsize) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let path = head.split_whitespace().nth(1)?.to_owned();
    let mut stream = stream;
    if !path.starts_with("/v1/") {
        return forward(&head, admin, &mut stream);
    }
    if path == "/v1/events" {
        return events(&mut stream);
    }
    let (name, query) = path.split_once('?').unwrap_or((&path, ""));
    let (status, body) = match name {
        "/v1/status" => (200, status()),
        "/v1/gain" => (200, gain()),
        "/v1/series" => (200, series()),
        "/v1/map" => (200, map()),
        "/v1/model" => (200, model()),
        "/v1/certificates" => (200, certificates()),
        "/v1/clients" => (200, clients(query, lists.fetch_add(1, Ordering::Relaxed))),
        _ if name.starts_with("/v1/clients/") => (200, client(&name["/v1/clients/".len()..])),
        "/v1/pin" => (200, json!({ "pinned": "h2", "for_s": 3600 })),
        _ => (404, json!({ "error": "there is nothing at this path" })),
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncache-control: no-store\r\n\
         hikyaku-known: {CLIENTS}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).ok()
}

/// Has the real server answer.
fn forward(head: &str, admin: SocketAddr, stream: &mut TcpStream) -> Option<()> {
    let mut server = TcpStream::connect(admin).ok()?;
    let kept = head.lines().filter(|line| {
        let line = line.to_ascii_lowercase();
        let of_fake = ["connection:", "host:", "origin:"];
        !line.is_empty() && !of_fake.iter().any(|field| line.starts_with(field))
    });
    let kept: String = kept.map(|line| format!("{line}\r\n")).collect();
    let request = format!("{kept}host: {admin}\r\nconnection: close\r\n\r\n");
    server.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).ok()?;
    stream.write_all(&answer).ok()
}

fn events(stream: &mut TcpStream) -> Option<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).ok()?;
    for number in 0..400_u32 {
        let version = if number.is_multiple_of(3) { "h2" } else { "h3" };
        let status = if number % 40 == 7 { 404 } else { 200 };
        let event = json!({
            "time": format!("2026-11-28T09:{:02}:{:02}.123456Z", number / 60 % 60, number % 60),
            "client": format!("198.51.{}.{}", number % 7, number % 200 + 1), "port": 40_000 + number,
            "method": "GET", "host": "www.example.org", "path": format!("/img/{number}.webp"),
            "version": version, "status": status, "bytes": 20_000 + 317 * number, "complete": true,
            "duration_us": 40_000 + 900 * number, "goodput_bps": 12_000_000, "min_rtt_us": 21_000,
            "packets_sent": 1000, "packets_lost": number % 11,
        });
        let text = format!("event: response\ndata: {event}\n\n");
        stream.write_all(text.as_bytes()).ok()?;
    }
    // Open until the browser leaves.
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).ok().map(drop)
}

fn status() -> Value {
    json!({
        "version": "0.0.0", "uptime_s": 432_000, "listen": ["0.0.0.0:443", "[::]:443"], "cleartext": [],
        "serves": "/srv/www", "policy": "adaptive", "congestion": "adaptive", "clients": CLIENTS + 9000,
        "connections": { "h1": 12, "h2": 840, "h3": 2210 },
        "requests": { "h1": 9021, "h2": 1_204_332, "h3": 4_093_118 }, "model": "measured in the lab",
        "upstreams": [{ "url": "http://10.0.0.7:8080", "up": true, "requests": 904_411, "under_way": 4, "failures": 2, "retries": 1 }],
    })
}

fn ratio(mean: f64, half: f64) -> Value {
    json!({ "mean": mean, "low": mean - half, "high": mean + half })
}

fn group(name: &str, clients: u32, mean: f64, half: f64) -> Value {
    let verdict = match (mean + half < 1.0, mean - half > 1.0) {
        (true, _) => "sooner",
        (_, true) => "later",
        _ => "undecided",
    };
    json!({
        "name": name, "clients": { "hikyaku": clients, "hold_back": clients / 60 },
        "ratio": ratio(mean, half), "verdict": verdict,
    })
}

fn gain() -> Value {
    let quantile = |hikyaku: f64, hold_back: f64, half: f64| json!({ "hikyaku": hikyaku, "hold_back": hold_back, "ratio": ratio(hikyaku / hold_back, half) });
    json!({
        "since": "2026-11-21T00:00:00Z", "until": "2026-11-28T09:15:00Z", "holdback": 0.01,
        "clients": { "hikyaku": 40_590, "hold_back": 410 }, "sampled": { "hikyaku": 8192, "hold_back": 410 },
        "responses": { "hikyaku": 812_000, "hold_back": 8100 },
        "incomplete": { "hikyaku": 0.004, "hold_back": 0.006 }, "verdict": "sooner",
        "sentence": "Responses arrive 8 % sooner (5 to 11 %): 41,000 clients since 2026-11-21.",
        "ratio": ratio(0.92, 0.03),
        "load_time_s": { "p50": quantile(0.21, 0.228, 0.03), "p75": quantile(0.44, 0.486, 0.04), "p95": quantile(1.62, 1.9, 0.09) },
        "until_5_percent": null,
        "versions": { "hikyaku": { "h1": 0.02, "h2": 0.4, "h3": 0.58 }, "hold_back": { "h1": 0.02, "h2": 0.21, "h3": 0.77 } },
        "best": group("198.51.100.0/24", 2400, 0.71, 0.08), "worst": group("203.0.113.0/24", 1900, 1.02, 0.05),
        "groups": [
            group("198.51.100.0/24", 2400, 0.71, 0.08), group("192.0.2.0/24", 3100, 0.88, 0.06),
            group("203.0.113.0/24", 1900, 1.02, 0.05), group("2001:db8::/48", 1500, 0.95, 0.09),
        ],
        "edges": 1,
    })
}

fn series() -> Value {
    let points = (0..180_u64).map(|number| {
        let wave = 1.0 + 0.4 * (number as f64 / 25.0).sin() + 0.06 * (number as f64 * 1.7).sin();
        json!({
            "t": 1_795_857_300 + 5 * number, "seconds": 5.0,
            "requests_per_s": { "h1": 3.0 * wave, "h2": 180.0 * wave, "h3": 420.0 * wave },
            "client_errors_per_s": 1.0 + wave, "server_errors_per_s": if number % 50 == 9 { 2.0 } else { 0.0 },
            "bits_per_s": 3.1e8 * wave,
            "p50_us": { "h1": null, "h2": 61_000.0 * wave, "h3": 52_000.0 * wave },
            "p95_us": { "h1": null, "h2": 410_000.0 * wave, "h3": 300_000.0 * wave },
            "cpu": 0.6 * wave, "connections": { "h1": 12, "h2": 840, "h3": 2210 },
        })
    });
    json!({ "points": points.collect::<Vec<_>>() })
}

/// A number from 0 to 1 that looks like chance.
fn chance(number: usize, stream: usize) -> f64 {
    let mixed = (number as f64 * 12.9898 + stream as f64 * 78.233).sin() * 43_758.545_3;
    mixed - mixed.floor()
}

fn map() -> Value {
    let log = |from: f64, to: f64, part: f64| from * (to / from).powf(part);
    let gain = |rtt: f64, loss: f64| (loss / 0.004).ln() * 0.06 + (rtt / 60_000.0).ln() * 0.05;
    let dots = (0..DOTS).map(|number| {
        let (a, b) = (chance(number, 1), chance(number, 2));
        let rtt = log(2000.0, 400_000.0, (a + chance(number, 3)) / 2.0);
        let loss = log(1e-4, 0.1, (b + chance(number, 4)) / 2.0);
        let version = if gain(rtt, loss) > 0.0 { "h3" } else { "h2" };
        let group = match number % 40 {
            0 => "hold_back",
            1 => "udp",
            _ => "normal",
        };
        json!({
            "key": format!("dot_{number}"), "min_rtt_us": rtt as u64, "loss": loss, "version": if group == "udp" { "h2" } else { version },
            "group": group, "clients": 1 + (1000.0 * chance(number, 5).powi(4)) as u32,
            "address": format!("198.51.{}.{}", number / 200, number % 200 + 1), "saves": 0.3 * a,
        })
    });
    let axis = |from: f64, to: f64| {
        (0..33)
            .map(move |n| log(from, to, f64::from(n) / 32.0))
            .collect::<Vec<_>>()
    };
    let (rtts, losses) = (axis(1e3, 1e6), axis(1e-4, 0.2));
    let rows: Vec<Vec<f64>> = rtts
        .iter()
        .map(|rtt| losses.iter().map(|loss| gain(*rtt, *loss)).collect())
        .collect();
    json!({
        "known": CLIENTS, "drawn": 19_200, "without_path": 800, "dots": dots.collect::<Vec<_>>(),
        "plane": { "rate_bps": 24_000_000, "size": 1_000_000, "min_rtt_us": rtts, "loss": losses, "gain": rows },
    })
}

fn model() -> Value {
    let arm = |arm: &str, clients: u32, p50: f64| json!({ "arm": arm, "clients": clients, "responses": 6.0 * f64::from(clients), "p10": p50 * 0.7, "p50": p50, "p90": p50 * 1.6 });
    json!({
        "description": "Measured in the lab on 288 paths.", "clients": 17_400,
        "arms": [arm("h2-cubic", 6100, 1.04), arm("h2-floor", 5200, 0.98), arm("h3-cubic", 7000, 1.12), arm("h3-floor", 9800, 1.01)],
    })
}

fn certificates() -> Value {
    json!([{
        "site": null, "source": "acme", "self_signed": false, "names": ["www.example.org", "example.org"],
        "certificates": [{ "key": "ECDSA P-256", "issuer": "Example CA", "not_before": 1_790_000_000, "not_after": 4_000_000_000_u64, "fingerprint": "00", "ocsp": { "state": "none" } }],
        "acme": { "state": "valid", "error": null },
    }])
}

fn clients(query: &str, round: usize) -> Value {
    let parameters: Vec<_> = query.split('&').collect();
    assert!(
        parameters.contains(&"limit=100"),
        "the page asks for {query}"
    );
    // Another order each time.
    let listed = (0..100).map(|place| {
        let number = (place + 7 * round) % 100;
        let version = if number.is_multiple_of(3) { "h2" } else { "h3" };
        json!({
            "address": format!("198.51.0.{}", number + 1), "age_s": place, "version": version, "congestion": "floor",
            "reason": format!("{}: predicted 0.51 s against 0.62 s for 1 MB and TCP's longer handshake (RTT 20 ms, loss 1 %, 20 Mbit/s)", if version == "h2" { "HTTP/2" } else { "HTTP/3" }),
            "reason_code": "h3_faster", "group": if number % 25 == 4 { "hold_back" } else { "normal" }, "samples": 24.0,
            "min_rtt_us": 20_000 + 1000 * number, "loss": 0.001 * number as f64 / 10.0, "rate_bps": 20_000_000, "saves": 0.002 * number as f64,
        })
    });
    listed.collect()
}

fn client(address: &str) -> Value {
    let load = |time: &str, sd: f64| json!({ "time": time, "rel_sd": sd });
    let bounds = json!({ "mean": "1%", "low": "0.74%", "high": "1.3%" });
    json!({
        "address": address, "sentence": "Gets HTTP/2 with CUBIC and a floor: 0.51 s for 1 MB, 27 % sooner than HTTP/3 with CUBIC, which an ordinary server gives (0.7 s).",
        "saves": 0.27,
        "decision": {
            "version": "h2", "reason_code": "h2_faster", "group": "normal", "session": 1, "advertised_for": null, "clear": "h3",
            "reason": "HTTP/2: predicted 0.51 s against 0.62 s on HTTP/3 for 1 MB and TCP's longer handshake (RTT 20 ms, loss 1 %, 20 Mbit/s); lower bound of the gain 10 %",
            "congestion": {
                "tcp": { "chosen": "floor", "reason_code": "no_gain", "reason": "floor: the fairest, no other surely gains enough" },
                "quic": { "chosen": "floor", "reason_code": "no_gain", "reason": "floor: the fairest, no other surely gains enough" },
            },
        },
        "arms": [
            { "arm": "h2-cubic", "load": load("702ms", 0.031) }, { "arm": "h2-floor", "load": load("490ms", 0.082) },
            { "arm": "h2-bbr", "load": load("488ms", 0.082) }, { "arm": "h3-cubic", "load": load("700ms", 0.031) },
            { "arm": "h3-floor", "load": load("620ms", 0.087) }, { "arm": "h3-bbr", "load": load("615ms", 0.087) },
        ],
        "path": { "samples": 24.0, "min_rtt": "20ms", "rate": "20Mbps", "loss_tcp": bounds, "loss_quic": bounds, "size": "1MB", "known": { "tcp": null, "quic": null } },
        "udp": { "health": "has worked for 90 s", "prefix": null, "next_probe_in": null }, "connections": null, "routes": [], "levels": [],
        "open": [{ "version": "h2", "port": 51_234, "via": null, "age": "12s", "algorithm": "hk_floor", "cwnd": "64kB", "rtt": "21.4ms", "slow_start": false, "floor": null, "route": null, "scheduling": null, "subflows": [] }],
        "text": "client        192.0.2.1\ndecision      HTTP/2: predicted 0.51 s against 0.62 s on HTTP/3\n",
    })
}

//! Traces: what upstreams get of the caller's, and what a collector of OTLP gets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use hikyaku_testkit::fetch::curl;
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{PATIENCE, Server, hikyaku};
use serde_json::Value;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// A collector, which takes OTLP/JSON and answers the first requests with these statuses, then with 200.
struct Collector {
    address: SocketAddr,
    spans: Receiver<Value>,
}

impl Collector {
    fn start(mut statuses: Vec<u16>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (send, spans) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let status = match statuses.is_empty() {
                    true => 200,
                    false => statuses.remove(0),
                };
                take(stream.unwrap(), status, &send);
            }
        });
        Self { address, spans }
    }

    fn url(&self) -> String {
        format!("tracing.otlp=http://{}", self.address)
    }

    /// The next spans that it has taken.
    #[track_caller]
    fn spans<const N: usize>(&self) -> [Value; N] {
        [(); N].map(|()| self.spans.recv_timeout(PATIENCE).unwrap())
    }
}

/// Takes one export request, and gives its spans if it is answered with 200.
fn take(stream: TcpStream, status: u16, spans: &Sender<Value>) {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    assert_eq!(lines[0], "POST /v1/traces HTTP/1.1");
    assert!(
        lines
            .iter()
            .any(|line| line == "content-type: application/json"),
        "{lines:?}"
    );
    let length = lines
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\n\r\n{{}}");
    reader.get_mut().write_all(answer.as_bytes()).unwrap();
    if status != 200 {
        return;
    }
    let body: Value = serde_json::from_slice(&body).unwrap();
    let resource = &body["resourceSpans"][0];
    assert_eq!(attribute(&resource["resource"], "service.name"), "hikyaku");
    for span in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
        // The test may be over.
        let _ = spans.send(span.clone());
    }
}

/// The value of an attribute; null where there is none.
fn attribute(of: &Value, key: &str) -> Value {
    let attributes = of["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    let value = found.and_then(|found| found["value"].as_object()?.values().next().cloned());
    value.unwrap_or_default()
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// The value of a field that an upstream got.
fn field(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value.map(str::to_owned)
}

fn head(server: &Server, fields: &[&str]) -> String {
    let fields = fields
        .iter()
        .flat_map(|field| ["-H", field])
        .collect::<Vec<_>>();
    let url = server.url("/head?secret=1");
    let output = curl(&[&["--http2", "-A", "tester"], &*fields, &[&*url]].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn upstream_url() -> String {
    format!("http://{}", upstream::start(Speaks::Http1))
}

#[test]
fn without_a_collector_the_callers_trace_passes_unchanged() {
    let server = Server::start(&["--upstream", &upstream_url()]);
    for parent in [format!("00-{TRACE}-{SPAN}-01"), "what-ever".to_owned()] {
        let field_of_parent = format!("traceparent: {parent}");
        let got = head(&server, &[&field_of_parent, "tracestate: a=1,b=2"]);
        assert_eq!(field(&got, "traceparent"), Some(parent), "{got}");
        assert_eq!(
            field(&got, "tracestate").as_deref(),
            Some("a=1,b=2"),
            "{got}"
        );
    }
    let got = head(&server, &[]);
    assert_eq!(field(&got, "traceparent"), None, "{got}");
}

#[test]
fn a_request_and_that_to_the_upstream_are_spans_of_one_trace() {
    // It may be overloaded for a moment.
    let collector = Collector::start(vec![503]);
    let upstream = upstream_url();
    let arguments = [
        "--upstream",
        &upstream,
        "--set",
        &collector.url(),
        "--set",
        "tracing.sample=1",
    ];
    let server = Server::start(&arguments);
    let got = head(&server, &[]);
    let spans: [Value; 2] = collector.spans();
    let of_kind = |kind: u8| spans.iter().find(|span| span["kind"] == kind).unwrap();
    let (server_span, client_span) = (of_kind(2), of_kind(3));
    assert_eq!(server_span["traceId"], client_span["traceId"]);
    assert_eq!(client_span["parentSpanId"], server_span["spanId"]);
    assert_eq!(server_span["parentSpanId"], Value::Null);
    let told = format!(
        "00-{}-{}-01",
        text(client_span, "traceId"),
        text(client_span, "spanId")
    );
    assert_eq!(field(&got, "traceparent"), Some(told), "{got}");
    let port = upstream.rsplit(':').next().unwrap();
    // span, attribute, value
    let wanted = [
        (server_span, "http.request.method", "GET"),
        (server_span, "http.response.status_code", "200"),
        (server_span, "url.path", "/head"),
        (server_span, "url.scheme", "https"),
        (server_span, "network.protocol.version", "2"),
        (server_span, "server.address", "127.0.0.1"),
        (server_span, "client.address", "127.0.0.1"),
        (server_span, "user_agent.original", "tester"),
        (client_span, "http.request.method", "GET"),
        (client_span, "http.response.status_code", "200"),
        (client_span, "server.port", port),
        (client_span, "url.full", &format!("{upstream}/head")),
    ];
    for (span, key, value) in wanted {
        assert_eq!(attribute(span, key), value, "{key}");
    }
    let nanos = |span: &Value, key: &str| text(span, key).parse::<u128>().unwrap();
    for span in &spans {
        assert!(!span.to_string().contains("secret"), "{span}");
        assert!(
            nanos(span, "startTimeUnixNano") <= nanos(span, "endTimeUnixNano"),
            "{span}"
        );
    }
    let (start, end) = ("startTimeUnixNano", "endTimeUnixNano");
    // Their clocks are read one after the other.
    let slack = 5_000_000_000;
    assert!(nanos(server_span, start) <= nanos(client_span, start) + slack);
    assert!(nanos(client_span, end) <= nanos(server_span, end) + slack);
    server.wait_metric("hikyaku_spans_total{outcome=\"exported\"}", 2.0);
    assert_eq!(
        server.metric("hikyaku_spans_total{outcome=\"dropped\"}"),
        0.0
    );
}

#[test]
fn the_caller_decides_what_is_recorded_of_its_trace() {
    let collector = Collector::start(Vec::new());
    let upstream = upstream_url();
    // Of new traces none is recorded.
    let arguments = [
        "--upstream",
        &upstream,
        "--set",
        &collector.url(),
        "--set",
        "tracing.sample=0",
    ];
    let server = Server::start(&arguments);
    // Neither this one nor the caller's that does not record is.
    let begun = head(&server, &[]);
    assert!(
        field(&begun, "traceparent").unwrap().ends_with("-00"),
        "{begun}"
    );
    let other = "1af7651916cd43dd8448eb211c80319c";
    let unrecorded = format!("traceparent: 00-{other}-{SPAN}-00");
    let got = head(&server, &[&unrecorded]);
    let told = field(&got, "traceparent").unwrap();
    assert!(
        told.starts_with(&format!("00-{other}-")) && told.ends_with("-00"),
        "{told}"
    );
    let recorded = format!("traceparent: 00-{TRACE}-{SPAN}-01");
    let got = head(&server, &[&recorded, "tracestate: a=1"]);
    assert_eq!(field(&got, "tracestate").as_deref(), Some("a=1"), "{got}");
    let spans: [Value; 2] = collector.spans();
    for span in &spans {
        assert_eq!(span["traceId"], TRACE, "{span}");
    }
    let server_span = spans.iter().find(|span| span["kind"] == 2).unwrap();
    assert_eq!(server_span["parentSpanId"], SPAN);
    assert_eq!(server_span["traceState"], "a=1");
    let told = field(&got, "traceparent").unwrap();
    assert!(!told.contains(SPAN) && told.ends_with("-01"), "{told}");
}

#[test]
fn a_file_is_a_span_and_a_failed_upstream_an_error() {
    let site = hikyaku_testkit::Site::new(&[("index.html", b"start")]);
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let gone = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let collector = Collector::start(Vec::new());
    let route = format!("route=[{{path='/gone', upstream='{gone}'}}]");
    let sets = [&*collector.url(), "tracing.sample=1", &*route];
    let sets: Vec<_> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let server = Server::start(&[&[site.path()], &*sets].concat());
    // The second time the file is in memory.
    for _ in 0..2 {
        assert!(curl(&["--http1.1", &server.url("/")]).status.success());
        let [file] = collector.spans();
        assert_eq!(file["kind"], 2, "{file}");
        assert_eq!(attribute(&file, "http.response.body.size"), "5");
        assert_eq!(file["status"], serde_json::json!({}));
    }
    assert!(curl(&[&server.url("/gone")]).status.success());
    let spans: [Value; 2] = collector.spans();
    for span in &spans {
        assert_eq!(span["status"]["code"], 2, "{span}");
        let kind = if span["kind"] == 2 { "502" } else { "connect" };
        assert_eq!(attribute(span, "error.type"), kind, "{span}");
    }
}

#[test]
fn unusable_settings_are_refused_with_the_reason() {
    for (set, reason) in [
        ("tracing.otlp=https://a:4318", "is not of http"),
        ("tracing.otlp=a:4318", "not of http"),
        ("tracing.sample=2", "no share from 0 to 1"),
        ("tracing.otpl=x", "otlp"),
    ] {
        let output = hikyaku(&["serve", "/", "--set", set]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && said.contains(reason),
            "{set}: {said}"
        );
    }
}

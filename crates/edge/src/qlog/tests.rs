use std::task::Poll;

use http_body_util::BodyExt;
use serde_json::Value;

use super::*;

fn request(client: &str) -> TraceRequest {
    TraceRequest {
        client: client.parse().unwrap(),
        connections: 1,
        duration: Duration::from_secs(600),
        size: ByteSize::from_mib(64),
    }
}

fn watch(traces: &Traces, request: &TraceRequest) -> TraceBody {
    traces.watch(request, Timestamp::from_secs(1)).unwrap()
}

fn begins(traces: &Traces, client: &str) -> Option<Trace> {
    let remote = SocketAddr::new(client.parse().unwrap(), 4433);
    let local = "192.0.2.1:443".parse().unwrap();
    traces.of_connection(remote, local, || "c0ffee".to_owned())
}

/// The records until the trace ends.
async fn all(body: TraceBody) -> Vec<Value> {
    let bytes = body.collect().await.unwrap().to_bytes();
    records(&bytes)
}

fn records(bytes: &[u8]) -> Vec<Value> {
    let text = str::from_utf8(bytes).unwrap();
    let records = text.split_terminator('\n');
    let content = records.map(|record| record.strip_prefix('\x1e').unwrap());
    content
        .map(|content| serde_json::from_str(content).unwrap())
        .collect()
}

#[tokio::test]
async fn only_who_is_asked_for_is_traced() {
    let traces = Traces::default();
    assert!(begins(&traces, "192.0.2.7").is_none(), "nobody asks");
    let prefix = watch(&traces, &request("192.0.2.0/24"));
    let address = watch(&traces, &request("2001:db8::7"));
    assert!(begins(&traces, "198.51.100.7").is_none(), "another");
    let mapped = begins(&traces, "::ffff:192.0.2.9");
    assert!(mapped.is_some(), "in the prefix");
    assert!(begins(&traces, "192.0.2.7").is_none(), "one was asked for");
    drop((mapped, begins(&traces, "2001:db8::7").unwrap()));
    for (body, client) in [(prefix, "192.0.2.9"), (address, "2001:db8::7")] {
        let records = all(body).await;
        let names: Vec<&Value> = records.iter().map(|record| &record["name"]).collect();
        assert_eq!(records[0]["qlog_format"], "JSON-SEQ", "{names:?}");
        assert_eq!(records[1]["name"], "connectivity:connection_started");
        assert_eq!(records[1]["data"]["src_ip"], client);
        assert_eq!(records[1]["group_id"], "c0ffee");
        assert_eq!(records[2]["name"], "hikyaku:trace_ended");
        assert_eq!(records[2]["data"]["reason"], "connections");
        assert_eq!(records.len(), 3, "quinn's own header goes: {names:?}");
    }
    assert!(begins(&traces, "192.0.2.7").is_none());
}

#[tokio::test]
async fn a_reader_who_leaves_frees_its_place() {
    let traces = Traces::default();
    let asked = request("::1");
    let mut bodies: Vec<_> = (0..MAX_WANTED).map(|_| watch(&traces, &asked)).collect();
    assert!(traces.watch(&asked, Timestamp::from_secs(1)).is_err());
    bodies.pop();
    let last = watch(&traces, &asked);
    bodies.clear();
    let _one = begins(&traces, "::1").expect("the last still waits");
    assert!(begins(&traces, "::1").is_none());
    drop(last);
}

#[tokio::test]
async fn a_trace_ends_in_time() {
    let traces = Traces::default();
    let asked = TraceRequest {
        duration: Duration::from_millis(20),
        ..request("::1")
    };
    let body = watch(&traces, &asked);
    let trace = begins(&traces, "::1").unwrap();
    let records = all(body).await;
    let last = &records.last().unwrap()["data"];
    assert_eq!(last["reason"], "time");
    assert_eq!(last["connections"], 1);
    drop(trace);
}

#[tokio::test]
async fn a_trace_ends_at_its_size() {
    let (feed, body) = pipe::new(Instant::now() + Duration::from_secs(600), 5_000);
    let one = record(&json!({ "name": "x", "data": "y".repeat(980) }));
    for _ in 0..100 {
        feed.push(&one);
    }
    assert!(!feed.is_open());
    let records = all(body).await;
    assert_eq!(records.len(), 5 - 1 + 1, "four fit, and the last");
    assert_eq!(records[4]["data"]["reason"], "size");
}

#[tokio::test]
async fn a_slow_reader_misses_records_and_learns_how_many() {
    let (feed, mut body) = pipe::new(Instant::now() + Duration::from_secs(600), 1 << 30);
    let one = record(&json!({ "name": "x", "data": "y".repeat(1_000) }));
    let pushed = 2_000;
    (0..pushed).for_each(|_| feed.push(&one));
    let frame = body.frame().await.unwrap().unwrap();
    let early = records(&frame.into_data().unwrap());
    feed.push(&one);
    drop(feed);
    let late = all(body).await;
    assert!(early.len() < 1_100, "bounded: {}", early.len());
    assert_eq!(late[0]["name"], "hikyaku:events_dropped");
    let missed = pushed - early.len();
    assert_eq!(late[0]["data"]["events"], missed);
    assert_eq!(late[1]["name"], "x");
    assert_eq!(late[2]["data"]["dropped"], missed);
}

#[tokio::test]
async fn a_reader_is_woken() {
    let (feed, mut body) = pipe::new(Instant::now() + Duration::from_secs(600), 1 << 30);
    let mut frame = std::pin::pin!(body.frame());
    let pending = futures_util::future::poll_fn(|cx| Poll::Ready(frame.as_mut().poll(cx)));
    assert!(pending.await.is_pending());
    let writer = tokio::spawn(async move { feed.push(&record(&json!({ "name": "x" }))) });
    assert!(frame.await.is_some());
    writer.await.unwrap();
}

use http_body_util::{BodyExt, Empty};

use super::*;

fn tracer(sample: f64, parents: bool) -> Arc<Tracer> {
    let config = TracingConfig {
        sample,
        parents,
        ..TracingConfig::default()
    };
    Arc::new(Tracer::new(&config).0)
}

fn request(fields: &[(&'static str, &str)]) -> Request<RequestBody> {
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let mut request = Request::new(body);
    for (name, value) in fields {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";

#[test]
fn a_request_is_a_span_of_its_callers_trace() {
    let state = "vendor=1,other=2";
    // flags, share of new traces
    for (flags, sample) in [("01", 0.0), ("00", 1.0)] {
        let tracer = tracer(sample, true);
        let parent = format!("{PARENT}-{flags}");
        let mut request = request(&[("traceparent", &parent), ("tracestate", state)]);
        let begun = tracer.begin(&mut request);
        assert_eq!(begun.parent, Some(0xb7ad_6b71_6920_3331));
        assert_eq!(
            begun.context.sampled,
            flags == "01",
            "the caller's choice holds"
        );
        let sent = TraceContext::of(request.headers()).unwrap();
        assert_eq!(sent, begun.context);
        assert_eq!(sent.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_ne!(Some(sent.span), begun.parent);
        assert_eq!(request.headers()["tracestate"], state);
        assert_eq!(begun.state.as_ref().unwrap(), state);
    }
}

#[test]
fn a_trace_begins_anew_without_a_parent_that_counts() {
    let parent = format!("{PARENT}-01");
    // name, fields, whether parents are taken
    type Case<'a> = (&'a str, &'a [(&'static str, &'a str)], bool);
    let cases: &[Case<'_>] = &[
        ("none", &[], true),
        ("state alone", &[("tracestate", "a=1")], true),
        (
            "malformed",
            &[("traceparent", "00-1-2-03"), ("tracestate", "a=1")],
            true,
        ),
        (
            "not taken",
            &[("traceparent", &parent), ("tracestate", "a=1")],
            false,
        ),
    ];
    for (name, fields, parents) in cases {
        let mut request = request(fields);
        let begun = tracer(0.0, *parents).begin(&mut request);
        assert_eq!(
            (begun.parent, begun.context.sampled),
            (None, false),
            "{name}"
        );
        assert_eq!(
            TraceContext::of(request.headers()),
            Some(begun.context),
            "{name}"
        );
        assert!(!request.headers().contains_key(TRACESTATE), "{name}");
    }
}

#[test]
fn texts_of_clients_are_cut_at_a_character() {
    assert_eq!(short("abc"), "abc");
    let long = "é".repeat(600);
    assert_eq!(short(&long), "é".repeat(512));
    assert_eq!(short(&format!("a{long}")), format!("a{}", "é".repeat(511)));
    let parent = format!("{PARENT}-01");
    for (length, is_there) in [(512, true), (513, false)] {
        let state = format!("a={}", "x".repeat(length - 2));
        let mut request = request(&[("traceparent", &parent), ("tracestate", &state)]);
        let begun = tracer(0.0, true).begin(&mut request);
        assert_eq!(begun.state.is_some(), is_there, "{length}");
        assert_eq!(
            request.headers()["tracestate"],
            state,
            "upstreams get it whole"
        );
    }
}

#[test]
fn the_share_of_new_traces_is_sampled() {
    for (share, least, most) in [(0.0, 0, 0), (0.1, 800, 1200), (1.0, 10_000, 10_000)] {
        let tracer = tracer(share, true);
        let traces: Vec<_> = (0..10_000).map(|_| tracer.root()).collect();
        let sampled = traces.iter().filter(|trace| trace.sampled).count();
        assert!((least..=most).contains(&sampled), "{share}: {sampled}");
        let numbers: std::collections::HashSet<_> = traces.iter().map(|it| it.trace).collect();
        assert_eq!(numbers.len(), traces.len());
    }
}

#[test]
fn a_full_queue_drops_spans_and_counts_them() {
    let (tracer, spans) = Tracer::new(&TracingConfig::default());
    let context = TraceContext {
        trace: 1,
        span: 2,
        sampled: true,
    };
    let span = UpstreamSpan {
        context,
        parent: 3,
        started: crate::clock::now(),
        time: Duration::ZERO,
        method: http::Method::GET,
        url: String::new(),
        address: String::new(),
        port: None,
        resends: 0,
        outcome: Err(None),
    };
    for _ in 0..QUEUE + 3 {
        tracer.asked(span.clone());
    }
    assert_eq!(tracer.dropped.load(Relaxed), 3);
    assert_eq!(spans.len(), QUEUE);
}

use super::*;
use crate::experiment::error::SpecError;
use crate::experiment::record::Links;

const GOOD: &str = r#"
title = "HTTP/2 against HTTP/3"
question = "Which is faster?"
backend = "link"
repeats = 5
timeout = "120s"

[link]
queue = "1bdp"
down = { overhead = 40 }

[axes]
rate = ["50Mbps", "200Mbps"]
loss = ["0%", "1%"]
rtt = ["10ms", "50ms"]

[[skip]]
where = { rate = "50Mbps", loss = ["1%"] }
arms = ["h3"]
reason = "known"

[[adjust]]
where = { rate = "200Mbps" }
repeats = 2
timeout = "10s"

[workload]
files = [{ name = "image.png", size = "10MB" }]

[[arm]]
name = "h2"
set = { "policy.version" = "h2" }
http = "2"

[[arm]]
name = "h3"
http = "3"

[quick]
axes = { rate = ["200Mbps"] }
workload = { files = [{ name = "image.png", size = "10kB" }] }
arms = ["h3"]
"#;

fn parse(text: &str) -> Result<Spec, SpecError> {
    Spec::parse("test", text, false)
}

#[test]
fn a_cell_is_one_value_of_each_axis() {
    let spec = parse(GOOD).unwrap();
    let cells = spec.cells(1);
    assert_eq!(cells.len(), 8);
    assert_eq!(cells[0].to_string(), "rate 50Mbps, loss 0%, rtt 10ms");
    let links = spec.links(&cells[7]).unwrap();
    assert_eq!(links.rate(), Some(hikyaku_units::Rate::from_mbps(200)));
    assert_eq!(links.rtt(), Duration::from_millis(50));
    assert_eq!(links.loss().ppm(), 10_000);
    let [up, down] = links.configs().unwrap();
    // 200 Mbit/s x 50 ms
    assert_eq!(up.queue, hikyaku_netsim::QueueLimit::Bytes(1_250_000));
    assert_eq!((up.overhead, down.overhead), (14, 40));
}

#[test]
fn sessions_begin_at_their_own_place_of_a_trace() {
    let link: toml::Table = "trace = [2, 4, 4, 9000]".parse().unwrap();
    let links = Links {
        up: link.clone(),
        down: link,
    };
    let [first, again, other] = [1, 1, 2].map(|seed| links.in_session(seed).unwrap());
    assert_eq!(first, again, "arms share their seeds");
    assert_ne!(first[0].rate, other[0].rate);
    assert_eq!(first[0].rate, first[1].rate, "both directions");
    assert_ne!(first[0].rate, links.configs().unwrap()[0].rate);
}

#[test]
fn a_network_has_keys_in_place_of_the_links() {
    let networks = "network = [\"lte\", \"wifi\"]\n[network.lte]\ndown = { loss = \"3%\" }\n\
                    [network.wifi]\nloss = { p = \"1%\", r = \"10%\", bad = \"30%\" }\n[[skip]]";
    let text = GOOD.replacen("[[skip]]", networks, 1);
    let text = text.replace("loss = [\"0%\", \"1%\"]\n", "");
    let text = text.replace(", loss = [\"1%\"]", "");
    let spec = parse(&text).unwrap();
    let losses = ["lte", "wifi"].map(|name| {
        let cell = spec.cells(1)[0].with(Axis::Network, name);
        let [up, down] = spec.links(&cell).unwrap().configs().unwrap();
        (up.loss, down.loss)
    });
    assert_eq!(losses[0].0, hikyaku_netsim::Loss::default());
    assert_ne!(losses[0].1, hikyaku_netsim::Loss::default());
    assert_eq!(losses[1].0, losses[1].1);
    assert!(matches!(
        losses[1].0,
        hikyaku_netsim::Loss::GilbertElliott { .. }
    ));
    for (from, to, want) in [
        (
            "\"lte\", \"wifi\"]",
            "\"lte\", \"wi-fi\"]",
            "there is no [network.wi-fi]",
        ),
        (
            "network = [\"lte\", \"wifi\"]\n",
            "",
            "needs the axis `network`",
        ),
        (
            "loss = { p",
            "lost = { p",
            "network.wifi: unknown field `lost`",
        ),
    ] {
        let error = parse(&text.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn adjustments_and_skips_apply_to_their_cells_alone() {
    let spec = parse(GOOD).unwrap();
    let cells = spec.cells(1);
    let (slow_lossy, fast) = (&cells[2], &cells[4]);
    let (h2, h3) = (&spec.arms[0], &spec.arms[1]);
    assert_eq!(spec.skipped(slow_lossy, h3), Some("known"));
    assert_eq!(spec.skipped(slow_lossy, h2), None);
    assert_eq!(spec.skipped(fast, h3), None);
    assert_eq!(
        (spec.repeats(fast, h2), spec.repeats(slow_lossy, h2)),
        (2, 5)
    );
    assert_eq!(spec.timeout(fast, h2), Duration::from_secs(10));
}

#[test]
fn quick_is_less_of_the_same() {
    let spec = Spec::parse("test", GOOD, true).unwrap();
    assert_eq!(spec.cells(1).len(), 4);
    assert_eq!((spec.repeats, spec.arms.len()), (1, 1));
    assert_eq!(spec.workload.files[0].size, ByteSize::from_bytes(10_000));
    assert!(spec.adjust.is_empty());
}

#[test]
fn a_choice_of_cells_is_the_seeds() {
    let text = GOOD.replace("repeats = 5", "repeats = 5\ncells = 3");
    let spec = parse(&text).unwrap();
    assert_eq!(spec.cells(1).len(), 3);
    assert_eq!(spec.cells(1), spec.cells(1));
    assert!((2..9).any(|seed| spec.cells(seed) != spec.cells(1)));
    // The order of the axes' values stays.
    assert!(spec.cells(1).is_sorted_by_key(|cell| {
        parse(GOOD)
            .unwrap()
            .cells(1)
            .iter()
            .position(|other| other == cell)
    }));
}

#[test]
fn mistakes_are_reported_with_their_place() {
    // name, text to replace, its replacement, the error's content
    let cases = [
        (
            "unknown key",
            "repeats = 5",
            "repeat = 5",
            "unknown field `repeat`",
        ),
        (
            "no repeats",
            "repeats = 5",
            "repeats = 0",
            "repeats: must be at least 1",
        ),
        (
            "unknown axis",
            "rtt =",
            "latency =",
            "unknown variant `latency`, expected one of `rate`",
        ),
        (
            "bad unit",
            "\"50Mbps\", \"200Mbps\"",
            "\"50Mb\"",
            "axes.rate: reading a rate from `50Mb`: unknown unit",
        ),
        (
            "empty axis",
            "[\"0%\", \"1%\"]",
            "[]",
            "axes.loss: has no values",
        ),
        (
            "value twice",
            "[\"0%\", \"1%\"]",
            "[\"0%\", \"0%\"]",
            "axes.loss: has a value twice",
        ),
        (
            "two delays",
            "[axes]",
            "[axes]\none_way_delay = [\"1ms\"]",
            "`rtt` and `one_way_delay`",
        ),
        ("bad queue", "1bdp", "lots", "link: `lots` is no queue"),
        (
            "unknown link key",
            "overhead = 40",
            "headroom = 40",
            "link: unknown field `headroom`",
        ),
        (
            "unknown arm key",
            "http = \"3\"",
            "version = \"3\"",
            "unknown field `version`",
        ),
        (
            "unknown version",
            "http = \"3\"",
            "http = \"4\"",
            "unknown variant `4`",
        ),
        (
            "two arms of a name",
            "name = \"h3\"",
            "name = \"h2\"",
            "there are two arms `h2`",
        ),
        (
            "set for a peer",
            "http = \"2\"",
            "server = \"nginx\"",
            "`set` is for hikyaku's",
        ),
        (
            "congestion control of a peer for hikyaku",
            "http = \"2\"",
            "congestion = \"bbr\"",
            "`config` and `congestion` are a peer's",
        ),
        (
            "configuration of a peer for hikyaku",
            "http = \"2\"",
            "config = \"nginx.conf\"",
            "`config` and `congestion` are a peer's",
        ),
        (
            "skip of nothing",
            "loss = [\"1%\"] }",
            "loss = [\"7%\"] }",
            "skip.where: the axis `loss` has no value `7%`",
        ),
        (
            "skip of no arm",
            "arms = [\"h3\"]\nreason",
            "arms = [\"h4\"]\nreason",
            "skip.arms: there is no arm `h4`",
        ),
        (
            "no files",
            "[{ name = \"image.png\", size = \"10MB\" }]",
            "[]",
            "workload.files: a session needs",
        ),
        (
            "a path as a name",
            "image.png\", size = \"10MB",
            "../x\", size = \"1MB",
            "a name has letters",
        ),
        (
            "page without HTML",
            "[workload]",
            "[workload]\npage = true",
            "the first file of a page is its HTML",
        ),
        (
            "flows without any",
            "[workload]",
            "[workload]\nkind = \"flows\"\nduration = \"3s\"",
            "arm `h2`: a workload of flows needs `flows`",
        ),
        (
            "change of no session",
            "[workload]",
            "[[workload.change]]\nsession = 1\n[workload]",
            "workload.change: there is no session 1",
        ),
        (
            "bad quick value",
            "axes = { rate = [\"200Mbps\"] }",
            "axes = { rate = [\"fast\"] }",
            "quick, axes.rate: reading a rate",
        ),
        (
            "quick axis",
            "axes = { rate",
            "axes = { jitter",
            "quick.axes.jitter: the experiment has no such axis",
        ),
    ];
    for (name, from, to, want) in cases {
        assert!(GOOD.contains(from), "{name}: `{from}` is not in the text");
        let error = parse(&GOOD.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(want), "{name}: {error}");
        assert!(
            error.contains("in the experiment `test`"),
            "{name}: {error}"
        );
    }
}

#[test]
fn without_its_part_there_is_no_quick() {
    let text = &GOOD[..GOOD.find("[quick]").unwrap()];
    let error = Spec::parse("test", text, true).unwrap_err().to_string();
    assert!(error.contains("there is no [quick] part"), "{error}");
    assert!(parse(text).is_ok());
}

#[test]
fn the_last_flow_starts_before_the_end() {
    let begin = &GOOD[..GOOD.find("[[skip]]").unwrap()];
    let parse_with = |workload: &str, flow: &str| {
        let flow =
            format!("{{ name = \"a\", transport = \"quic\", congestion = \"bbr\", {flow} }}");
        let text = format!(
            "{begin}[workload]\nkind = \"flows\"\nduration = \"4s\"\n{workload}\n[[arm]]\nname = \"x\"\nflows = [{flow}]"
        );
        parse(&text)
    };
    let spec = parse_with("stagger = \"1s\"", "start = \"1s\", count = 3").unwrap();
    let starts = spec.flows(&spec.arms[0]).into_iter();
    let starts: Vec<_> = starts
        .map(|(_, copy, start)| (copy, start.as_secs()))
        .collect();
    assert_eq!(starts, [(1, 1), (2, 1), (3, 1)]);
    for (workload, flow, want) in [
        ("", "start = \"4s\"", "starts after 4s"),
        ("stagger = \"2s\"", "count = 3", "starts after 4s"),
        ("", "count = 0", "`count` must be at least 1"),
    ] {
        let error = parse_with(workload, flow).unwrap_err().to_string();
        assert!(error.contains(want), "{flow}: {error}");
    }
}

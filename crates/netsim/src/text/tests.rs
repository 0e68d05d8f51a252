use hikyaku_units::LossRate;
use proptest::prelude::*;

use super::*;
use crate::config::{LinkConfig, Loss, QueueLimit, Reorder, UdpPolicy};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn loss_of(ppm: u32) -> LossRate {
    LossRate::from_ppm(ppm).unwrap()
}

fn patch() -> LinkPatch {
    LinkPatch::default()
}

#[test]
fn every_key_is_read_and_written_back() {
    let limit = |queue| UdpPolicy::Limit {
        rate: Rate::from_mbps(2),
        queue,
    };
    let burst = Loss::GilbertElliott {
        p_ppm: 2_000,
        r_ppm: 100_000,
        loss_good: LossRate::ZERO,
        loss_bad: loss_of(300_000),
    };
    let hold_back = Reorder::HoldBack {
        share_ppm: 10_000,
        extra_delay: ms(5),
    };
    let rate = |rate| LinkPatch {
        rate: Some(rate),
        ..patch()
    };
    let loss = |loss| LinkPatch {
        loss: Some(loss),
        ..patch()
    };
    let queue = |queue| LinkPatch {
        queue: Some(queue),
        ..patch()
    };
    let ecn = |ecn| LinkPatch {
        ecn: Some(ecn),
        ..patch()
    };
    let udp = |udp| LinkPatch {
        udp: Some(udp),
        ..patch()
    };
    let reorder = |reorder| LinkPatch {
        reorder: Some(reorder),
        ..patch()
    };
    let trace = |times: &[u64]| rate(Capacity::Trace(Trace::new(times.to_vec()).unwrap()));
    let cases = [
        // TOML, its meaning, JSON
        ("", patch(), "{}"),
        (
            "rate = '200Mbps'",
            rate(Rate::from_mbps(200).into()),
            r#"{"rate":"200Mbps"}"#,
        ),
        (
            "rate = 'unlimited'",
            rate(Capacity::Unlimited),
            r#"{"rate":"unlimited"}"#,
        ),
        (
            "trace = [0, 5, 5]",
            trace(&[0, 5, 5]),
            r#"{"trace":[0,5,5]}"#,
        ),
        (
            "trace = '''\n1\n2\n'''",
            trace(&[1, 2]),
            r#"{"trace":[1,2]}"#,
        ),
        (
            "one_way_delay = '25ms'",
            LinkPatch {
                one_way_delay: Some(ms(25)),
                ..patch()
            },
            r#"{"one_way_delay":"25ms"}"#,
        ),
        (
            "jitter = '5ms'",
            LinkPatch {
                jitter: Some(ms(5)),
                ..patch()
            },
            r#"{"jitter":"5ms"}"#,
        ),
        (
            "loss = '0.1%'",
            loss(Loss::Bernoulli(loss_of(1_000))),
            r#"{"loss":"0.1%"}"#,
        ),
        ("loss = '0%'", loss(Loss::None), r#"{"loss":"0%"}"#),
        (
            "loss = { p = '0.2%', r = '10%', bad = '30%' }",
            loss(burst),
            r#"{"loss":{"p":"0.2%","r":"10%","good":"0%","bad":"30%"}}"#,
        ),
        (
            "queue = '50ms'",
            queue(QueueLimit::Time(ms(50))),
            r#"{"queue":"50ms"}"#,
        ),
        (
            "queue = '150KiB'",
            queue(QueueLimit::Bytes(153_600)),
            r#"{"queue":"150KiB"}"#,
        ),
        (
            "queue = '1 packet'",
            queue(QueueLimit::Packets(1)),
            r#"{"queue":"1 packet"}"#,
        ),
        ("ecn = '5ms'", ecn(Ecn::Step(ms(5))), r#"{"ecn":"5ms"}"#),
        ("ecn = 'off'", ecn(Ecn::Off), r#"{"ecn":"off"}"#),
        (
            "reorder = { share = '1%', extra_delay = '5ms' }",
            reorder(hold_back),
            r#"{"reorder":{"share":"1%","extra_delay":"5ms"}}"#,
        ),
        (
            "reorder = 'off'",
            reorder(Reorder::None),
            r#"{"reorder":"off"}"#,
        ),
        ("udp = 'same'", udp(UdpPolicy::Same), r#"{"udp":"same"}"#),
        ("udp = 'drop'", udp(UdpPolicy::Drop), r#"{"udp":"drop"}"#),
        (
            "udp = '2Mbps'",
            udp(limit(UdpPolicy::LIMIT_QUEUE)),
            r#"{"udp":"2Mbps"}"#,
        ),
        (
            "udp = { rate = '2Mbps', queue = '0 packets' }",
            udp(limit(QueueLimit::Packets(0))),
            r#"{"udp":{"rate":"2Mbps","queue":"0 packets"}}"#,
        ),
        (
            "overhead = 0",
            LinkPatch {
                overhead: Some(0),
                ..patch()
            },
            r#"{"overhead":0}"#,
        ),
    ];
    for (text, want, json) in cases {
        let read: LinkPatch = toml::from_str(text).unwrap_or_else(|err| panic!("{text}: {err}"));
        assert_eq!(read, want, "{text}");
        assert_eq!(serde_json::to_string(&read).unwrap(), json, "{text}");
        assert_eq!(
            serde_json::from_str::<LinkPatch>(json).unwrap(),
            want,
            "{json}"
        );
    }
}

#[test]
fn mistakes_are_named() {
    let cases = [
        (
            "rat = '1Mbps'",
            "unknown field `rat`, expected one of `rate`, `trace`, `one_way_delay`",
        ),
        (
            "rate = '1Mbit'",
            "reading a rate from `1Mbit`: unknown unit",
        ),
        (
            "rate = '1Mbps'\ntrace = [1]",
            "`rate` and `trace` exclude each other",
        ),
        ("trace = [2, 1]", "1 ms comes after 2 ms"),
        ("trace = 7", "a list of times in ms, or the text of a trace"),
        ("one_way_delay = 25", "invalid type: integer `25`"),
        (
            "queue = '1500'",
            "reading a queue from `1500`: expected a time, a size or a number",
        ),
        ("queue = '-1 packets'", "reading a queue from `-1 packets`"),
        (
            "loss = 0.1",
            "expected a loss rate such as `0.1%`, or a table of `p`",
        ),
        ("loss = { p = '1%', r = '1%' }", "missing field `bad`"),
        ("loss = { h = '1%' }", "unknown field `h`"),
        (
            "reorder = 'on'",
            "reading a reordering from `on`: expected `off`, or a table",
        ),
        (
            "udp = 'throttle'",
            "reading a policy on UDP from `throttle`: expected `same`, `drop`",
        ),
        ("ecn = 'on'", "reading a duration from `on`"),
        ("overhead = -1", "invalid value: integer `-1`"),
    ];
    for (text, want) in cases {
        let error = toml::from_str::<LinkConfig>(text).unwrap_err().to_string();
        assert!(error.contains(want), "{text}: {error}");
    }
}

#[test]
fn a_change_is_one_table() {
    let text = r#"{"at":"4s","rate":"15Mbps","udp":"drop"}"#;
    let change: Change = serde_json::from_str(text).unwrap();
    let want = LinkPatch {
        rate: Some(Rate::from_mbps(15).into()),
        udp: Some(UdpPolicy::Drop),
        ..patch()
    };
    assert_eq!((change.at, &change.patch), (Duration::from_secs(4), &want));
    assert_eq!(serde_json::to_string(&change).unwrap(), text);
    for (text, want) in [
        (r#"{"rate":"15Mbps"}"#, "missing field `at`"),
        (r#"{"at":"4s","rates":"15Mbps"}"#, "unknown field `rates`"),
        (r#"{"at":4}"#, "invalid type: integer `4`"),
    ] {
        let error = serde_json::from_str::<Change>(text).unwrap_err();
        assert!(error.to_string().contains(want), "{text}: {error}");
    }
}

#[test]
fn a_written_link_has_every_key() {
    let json = serde_json::to_string(&LinkConfig::default()).unwrap();
    let want = r#"{"rate":"unlimited","one_way_delay":"0ns","jitter":"0ns","loss":"0%","#
        .to_owned()
        + r#""reorder":"off","queue":"1000 packets","ecn":"off","udp":"same","overhead":14}"#;
    assert_eq!(json, want);
}

proptest! {
    #[test]
    fn a_written_link_is_read_back(config in crate::link::tests::configs()) {
        let json = serde_json::to_string(&config).unwrap();
        prop_assert_eq!(serde_json::from_str::<LinkConfig>(&json).unwrap(), config.clone());
        let toml = toml::to_string(&config).unwrap();
        prop_assert_eq!(toml::from_str::<LinkConfig>(&toml).unwrap(), config);
    }
}

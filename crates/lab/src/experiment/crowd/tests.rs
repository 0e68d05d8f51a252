use super::*;

const GOOD: &str = r#"
title = "A crowd"
question = "Does it share?"
backend = "link"
repeats = 2
timeout = "60s"
link = { queue = "100ms", one_way_delay = "10ms" }
axes = { clients = ["5"] }

[workload]
kind = "crowd"
files = [{ name = "file.bin", size = "100kB" }]
duration = "20s"
stagger = "5s"

[[workload.client]]
name = "dsl"
http = ["2", "3"]
link = { rate = "300kbps" }

[[workload.client]]
name = "far"
http = ["3"]
link = { rate = "200kbps", one_way_delay = "100ms" }

[[arm]]
name = "crowd"

[[arm]]
name = "alone"
alone = true
"#;

fn parse(text: &str) -> Result<Spec, String> {
    Spec::parse("test", text, false).map_err(|error| error.to_string())
}

#[test]
fn the_kinds_take_turns_and_begin_one_after_the_other() {
    let spec = parse(GOOD).unwrap();
    let cell = &spec.cells(1)[0];
    let crowd = spec.crowd(cell, &spec.arms[0], 0, 0).unwrap();
    let seen: Vec<_> = crowd
        .iter()
        .map(|member| (member.name.as_str(), member.start.as_secs()))
        .collect();
    let want = [
        ("dsl-h2-1", 0),
        ("dsl-h3-1", 1),
        ("far-h3-1", 2),
        ("dsl-h2-2", 3),
        ("dsl-h3-2", 4),
    ];
    assert_eq!(seen, want);
    assert_eq!(crowd[4].address, Ipv4Addr::new(10, 128, 4, 1));
    assert_eq!(
        address(usize::from(MAX_CLIENTS) - 1),
        Ipv4Addr::new(10, 167, 15, 1)
    );
    assert_eq!(crowd[2].links.rtt(), Duration::from_millis(200));
    assert_eq!(crowd[3].links.rtt(), Duration::from_millis(20));
}

#[test]
fn alone_is_a_session_for_each_kind() {
    let spec = parse(GOOD).unwrap();
    let cell = &spec.cells(1)[0];
    let (crowd, alone) = (&spec.arms[0], &spec.arms[1]);
    assert_eq!(
        (spec.sessions(crowd), spec.sessions(alone)),
        ((0, 1), (0, 3))
    );
    assert!(
        spec.memoryless(crowd),
        "each session has a server of its own"
    );
    let names: Vec<_> = (0..3)
        .flat_map(|session| spec.crowd(cell, alone, 0, session).unwrap())
        .map(|member| member.name)
        .collect();
    assert_eq!(names, ["dsl-h2", "dsl-h3", "far-h3"]);
    // Five clients: two of the first kind, one of the last.
    for (session, repeat, address) in [(0, 0, 0), (0, 1, 3), (0, 2, 0), (2, 0, 2), (2, 1, 2)] {
        let one = &spec.crowd(cell, alone, repeat, session).unwrap()[0];
        assert_eq!(one.address, Ipv4Addr::new(10, 128, address, 1));
        assert_eq!(one.start, Duration::ZERO);
    }
}

#[test]
fn mistakes_are_reported() {
    for (from, to, want) in [
        (
            "axes = { clients = [\"5\"] }",
            "",
            "axes.clients: a crowd needs it",
        ),
        ("[\"5\"]", "[\"0\"]", "from 1 to 10000"),
        ("\"5s\"", "\"6s\"", "at most a quarter"),
        ("duration = \"20s\"", "", "workload.duration"),
        ("http = [\"3\"]", "http = []", "a list of versions"),
        ("name = \"far\"", "name = \"dsl\"", "each once"),
        (
            "rate = \"200kbps\"",
            "speed = \"1\"",
            "workload.client `far`: unknown field",
        ),
        (
            "alone = true",
            "alone = true\nhttp = \"2\"",
            "an arm gives the server alone",
        ),
        (
            "kind = \"crowd\"",
            "kind = \"flows\"",
            "is for `kind = \"crowd\"`",
        ),
        ("stagger = \"5s\"", "series = true", "no `page`"),
        (
            "stagger = \"5s\"",
            "pause = \"1s\"",
            "workload.pause: a crowd pauses between visits",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let error = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(want), "{to}: {error}");
    }
}

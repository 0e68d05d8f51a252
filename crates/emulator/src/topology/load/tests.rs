use super::{SHIPPED, TopologySpec};

#[test]
fn shipped_topologies_can_be_read() {
    for shipped in SHIPPED {
        let spec = TopologySpec::load(shipped.name).unwrap();
        assert!(!spec.description.is_empty(), "{}", shipped.name);
    }
    let names: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[test]
fn every_key_is_read() {
    let text = r#"
        description = "everything"

        [[nodes]]
        name = "a"
        addresses = ["10.0.0.1/32", "fd00::1/128"]
        forward = true
        congestion_control = "bbr"
        sysctls = { "net.ipv4.tcp_ecn" = 1, "net/ipv4/conf/eth0.1/rp_filter" = "2" }
        routes = ["default via 10.1.0.2"]
        rules = ["from 10.0.0.1 lookup 7"]
        ip = ["-6 route add unreachable default table 7"]

        [[nodes]]
        name = "b"

        [[links]]
        name = "path"
        a = { node = "a", interface = "eth0", addresses = ["10.1.0.1/24"] }
        b = { node = "b", interface = "eth0" }
        mtu = 9000
        up = { rate = "10Mbps", loss = "1%" }
        down = { one_way_delay = "20ms" }
        changes = { both = [{ at = "4s", loss = "2%" }], up = [{ at = "1s", rate = "5Mbps" }] }

        [[wires]]
        name = "wire"
        a = { node = "a", interface = "eth1" }
        b = { node = "b", interface = "eth1" }

        [[lans]]
        name = "core"
        ports = [{ node = "a", interface = "eth2" }, { node = "b", interface = "eth2" }]
    "#;
    let spec = TopologySpec::parse("test", text).unwrap();
    let links = spec.links[0].links();
    assert_eq!(links.down.one_way_delay.as_millis(), 20);
    assert_ne!(links.up, links.down);
    let changes = spec.links[0].changes.by_direction();
    let times = |changes: &[hikyaku_netsim::Change]| -> Vec<u64> {
        changes.iter().map(|change| change.at.as_secs()).collect()
    };
    assert_eq!(
        (times(&changes.up), times(&changes.down)),
        (vec![1, 4], vec![4])
    );
    assert_eq!(spec.nodes[0].addresses[1].to_string(), "fd00::1/128");
    assert_eq!(spec.nodes[0].sysctls["net.ipv4.tcp_ecn"].to_string(), "1");
    assert_eq!(spec.nodes[1].congestion_control, "cubic");
}

#[test]
fn mistakes_are_reported_with_their_place() {
    const NODES: &str = "description = ''\nnodes = [{ name = 'a' }, { name = 'b' }]\n";
    let node = |keys: &str| format!("description = ''\nnodes = [{{ name = 'a', {keys} }}]\n");
    let link = |a: &str, b: &str, keys: &str| {
        format!("{NODES}[[links]]\nname = 'l'\na = {{ {a} }}\nb = {{ {b} }}\n{keys}\n")
    };
    let good = ("node = 'a', interface = 'x'", "node = 'b', interface = 'x'");
    let cases: &[(&str, String, &[&str])] = &[
        ("not TOML", "nodes = [".into(), &["line 1", "^"]),
        (
            "no description",
            "nodes = []".into(),
            &["missing field `description`"],
        ),
        (
            "no node",
            "description = ''\nnodes = []".into(),
            &["nodes: there is none", "[[nodes]]"],
        ),
        (
            "unknown key",
            node("adresses = []"),
            &[
                "line 2",
                "^",
                "unknown field `adresses`",
                "`addresses`",
                "`forward`",
            ],
        ),
        (
            "unknown section",
            format!("{NODES}[[link]]\nname = 'l'\n"),
            &["line 3", "unknown field `link`", "`links`", "`lans`"],
        ),
        (
            "no prefix length",
            node("addresses = ['10.0.0.1']"),
            &[
                "line 2",
                "^",
                "`10.0.0.1` is not an address with a prefix length",
                "10.0.0.1/24",
            ],
        ),
        (
            "long prefix",
            node("addresses = ['10.0.0.1/33']"),
            &["`10.0.0.1/33` is not an address"],
        ),
        (
            "name",
            "description = ''\nnodes = [{ name = 'My Node' }]".into(),
            &["nodes: `My Node` cannot be a name", "lower-case"],
        ),
        (
            "twice the same",
            "description = ''\nnodes = [{ name = 'a' }, { name = 'a' }]".into(),
            &["nodes: two are called `a`"],
        ),
        (
            "the machine's parameter",
            node("sysctls = { 'kernel.panic' = 1 }"),
            &["nodes.a.sysctls.\"kernel.panic\"", "net."],
        ),
        (
            "an escape from /proc/sys/net",
            node("sysctls = { 'net/../kernel/panic' = 1 }"),
            &["nodes.a.sysctls.\"net/../kernel/panic\""],
        ),
        (
            "two commands in one",
            node("routes = ['default via 10.0.0.1', \"default via 10.0.0.2\\nlink del x\"]"),
            &["nodes.a.routes[1]: must be one line"],
        ),
        (
            "empty command",
            node("ip = ['']"),
            &["nodes.a.ip[0]: must be one line"],
        ),
        (
            "unknown node",
            link(good.0, "node = 'c', interface = 'x'", ""),
            &["links.l.b.node: no node is called `c`; there are a, b"],
        ),
        (
            "long interface name",
            link("node = 'a', interface = 'sixteen-letters-'", good.1, ""),
            &[
                "links.l.a.interface: `sixteen-letters-` cannot be the name",
                "15",
            ],
        ),
        (
            "interface name of two words",
            link("node = 'a', interface = 'x y'", good.1, ""),
            &["links.l.a.interface: `x y`"],
        ),
        (
            "interface name that the kernel refuses",
            link("node = 'a', interface = 'all'", good.1, ""),
            &["links.l.a.interface: `all` cannot be the name"],
        ),
        (
            "interface twice",
            link(good.0, "node = 'a', interface = 'x'", ""),
            &["links.l.b: node `a` has an interface `x` already"],
        ),
        (
            "both and up",
            link(
                good.0,
                good.1,
                "both = { rate = '1Mbps' }\nup = { rate = '1Mbps' }",
            ),
            &["links.l: `both` excludes `up` and `down`"],
        ),
        (
            "small MTU",
            link(good.0, good.1, "mtu = 576"),
            &["links.l.mtu: 576 is outside of 1280 to 65535"],
        ),
        (
            "property of a link",
            link(good.0, good.1, "up = { rat = '1Mbps' }"),
            &["line 7", "^", "unknown field `rat`", "`rate`"],
        ),
        (
            "unit of a link",
            link(good.0, good.1, "up = { rate = '1 furlong' }"),
            &["line 7", "^", "1 furlong"],
        ),
        (
            "change without a time",
            link(good.0, good.1, "changes = { up = [{ rate = '1Mbps' }] }"),
            &["line 7", "at"],
        ),
        (
            "LAN's port",
            format!("{NODES}[[lans]]\nname = 'l'\nports = [{{ node = 'z', interface = 'x' }}]"),
            &["lans.l.ports[0].node: no node is called `z`"],
        ),
    ];
    for (name, text, words) in cases {
        let error = TopologySpec::parse("my.toml", text).expect_err(name);
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            message += &format!(": {error}");
            cause = error.source();
        }
        for word in [&["reading topology `my.toml`"], *words].concat() {
            assert!(message.contains(word), "{name}: no `{word}` in:\n{message}");
        }
    }
}

#[test]
fn an_unknown_name_is_answered_with_the_shipped_ones() {
    let error = TopologySpec::load("dumbell").unwrap_err().to_string();
    assert_eq!(
        error,
        "reading topology `dumbell`: no file has this name, and the shipped topologies are `dumbbell`, `epe`, \
         `fleet`, `pair`, `two-paths`"
    );
}

#[test]
fn the_guides_example_can_be_read() {
    let guide = include_str!("../../../../../docs/topologies.md");
    let (_, rest) = guide.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let spec = TopologySpec::parse("docs/topologies.md", example).unwrap();
    assert_eq!((spec.nodes.len(), spec.links[0].changes.down.len()), (3, 2));
    for shipped in SHIPPED {
        assert!(
            guide.contains(&format!("| `{}` |", shipped.name)),
            "{}",
            shipped.name
        );
    }
}

//! `hikyaku fleet`.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use hikyaku_edge::config::AdminConfig;
use hikyaku_edge::{FleetEntry, FleetMember, FleetStatus};
use http::Method;

use crate::admin::{Demand, ServerArgs, ask_server};
use crate::table::table;

/// The time limit of the admin API.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Options of `hikyaku fleet`.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Asks a server for its fleet, and prints the store and the members.
pub(crate) fn run(args: &FleetArgs) -> anyhow::Result<()> {
    let body = args.server.ask(demand())?;
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = since_epoch.map_or(0, |time| time.as_secs());
    let mut out = io::stdout().lock();
    if args.json {
        out.write_all(&body)?;
        return Ok(());
    }
    out.write_all(text(&read(&body)?, now).as_bytes())?;
    Ok(())
}

/// Asks the server with this admin page for its fleet.
pub(crate) fn status(admin: &AdminConfig) -> anyhow::Result<FleetStatus> {
    read(&ask_server(admin, demand())?)
}

const fn demand() -> Demand<'static> {
    Demand {
        method: Method::GET,
        path: "/v1/fleet",
        body: String::new(),
        limit: TIMEOUT,
        without: "it shows the fleet",
    }
}

fn read(body: &[u8]) -> anyhow::Result<FleetStatus> {
    serde_json::from_slice(body).context("reading the answer of the admin API")
}

/// The store, its faults, and a line for each member and for each content that is shared. `now` is in seconds
/// since 1970.
fn text(status: &FleetStatus, now: u64) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(text, "edge   {}", status.name);
    let _ = writeln!(text, "store  {}", status.store);
    let faults = [&status.fault, &status.write_fault];
    for fault in faults.into_iter().flatten() {
        let since = age(status.faulty_ms.unwrap_or(0));
        let _ = writeln!(text, "fault  for {since}: {fault}");
    }
    if status.up {
        let keys = status
            .keys
            .map_or("unknown".to_owned(), |keys| keys.to_string());
        let answer = Duration::from_micros(status.answer_us);
        let _ = writeln!(text, "       answers in {answer:?}, has {keys} keys");
    } else if status.fault.is_none() {
        text.push_str("       has not been reached yet\n");
    }
    if status.duplicate {
        text.push_str(
            "fault  another process has the same name: set another `fleet.name` in one\n",
        );
    }
    if status.members.is_empty() {
        text.push_str("\nno member is known yet\n");
    } else {
        text.push('\n');
        text.push_str(&table(HEAD, status.members.iter().map(member)));
    }
    let (days, contents): (Vec<_>, Vec<_>) = status
        .contents
        .iter()
        .partition(|entry| entry.topic == GAIN);
    if !contents.is_empty() {
        text.push('\n');
        let entries = contents.into_iter().map(|entry| shared(entry, now));
        text.push_str(&table(SHARED, entries));
    }
    if !days.is_empty() {
        let _ = writeln!(text, "\nand {} days of edges, for the gain", days.len());
    }
    text
}

/// The topic of samples, of which each edge has one a day.
const GAIN: &str = "gain";

const HEAD: [&str; 7] = [
    "EDGE", "POP", "VERSION", "CONFIG", "SKEW", "LAG", "HEARD OF",
];

const SHARED: [&str; 5] = ["SHARED", "TITLE", "MADE", "ENDS", "STORE"];

fn member(member: &FleetMember) -> [String; HEAD.len()] {
    let heard = age(member.heard_ms);
    [
        format!("{}{}", member.name, if member.own { "*" } else { "" }),
        member.pop.clone().unwrap_or_else(|| "-".to_owned()),
        member.version.clone(),
        member.config.clone(),
        format!("{:+} ms", member.skew_ms),
        age(member.lag_ms),
        match member.silent {
            true => format!("{heard} ago, silent"),
            false => format!("{heard} ago"),
        },
    ]
}

/// A content that the fleet has in common, by its title: the content itself is nowhere to be seen.
fn shared(entry: &FleetEntry, now: u64) -> [String; SHARED.len()] {
    let since = |from: u64, to: u64| age(to.saturating_sub(from).saturating_mul(1000));
    [
        entry.topic.clone(),
        entry.title.clone(),
        match entry.made {
            0 => "-".to_owned(),
            made => format!("{} ago", since(made, now)),
        },
        format!("in {}", since(now, entry.until)),
        if entry.stored { "yes" } else { "not yet" }.to_owned(),
    ]
}

/// A time in its largest unit.
fn age(millis: u64) -> String {
    match millis / 1000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::{age, text};
    use hikyaku_edge::{FleetEntry, FleetMember, FleetStatus};

    const NOW: u64 = 1_800_000_000;

    fn entry(topic: &str, title: &str, age: u64) -> FleetEntry {
        FleetEntry {
            topic: topic.to_owned(),
            title: title.to_owned(),
            made: if age == 0 { 0 } else { NOW - age },
            until: NOW + 60 * 86_400,
            stored: age > 0,
        }
    }

    fn member(name: &str, own: bool) -> FleetMember {
        FleetMember {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            pop: own.then(|| "fra".to_owned()),
            started_ms: 0,
            config: "0123456789abcdef".to_owned(),
            skew_ms: if own { 3 } else { -250 },
            lag_ms: 0,
            heard_ms: if own { 900 } else { 130_000 },
            silent: !own,
            own,
        }
    }

    #[test]
    fn members_stand_in_a_table() {
        let status = FleetStatus {
            store: "redis://store:6379".to_owned(),
            up: true,
            name: "fra-1".to_owned(),
            keys: Some(12),
            answer_us: 350,
            members: vec![member("fra-1", true), member("gru-1", false)],
            contents: vec![
                entry("certificate", "a.example, b.example", 1000),
                entry("account", "ca.example", 0),
                entry("gain", "2026-11-28 at fra-1", 20),
                entry("gain", "2026-11-27 at fra-1", 90_000),
            ],
            ..FleetStatus::default()
        };
        let expected = "\
edge   fra-1
store  redis://store:6379
       answers in 350µs, has 12 keys

EDGE    POP  VERSION  CONFIG            SKEW     LAG  HEARD OF
fra-1*  fra  0.1.0    0123456789abcdef  +3 ms    0 s  0 s ago
gru-1   -    0.1.0    0123456789abcdef  -250 ms  0 s  2 min ago, silent

SHARED       TITLE                 MADE        ENDS        STORE
certificate  a.example, b.example  16 min ago  in 60 days  yes
account      ca.example            -           in 60 days  not yet

and 2 days of edges, for the gain
";
        assert_eq!(text(&status, NOW), expected);
    }

    #[test]
    fn a_store_that_fails_is_said() {
        let status = FleetStatus {
            store: "redis://store".to_owned(),
            fault: Some("nothing listens".to_owned()),
            faulty_ms: Some(61_000),
            name: "a".to_owned(),
            duplicate: true,
            ..FleetStatus::default()
        };
        let expected = "\
edge   a
store  redis://store
fault  for 61 s: nothing listens
fault  another process has the same name: set another `fleet.name` in one

no member is known yet
";
        assert_eq!(text(&status, NOW), expected);
        assert_eq!(age(10_000_000), "2 h");
    }
}

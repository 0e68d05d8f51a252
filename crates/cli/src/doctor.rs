//! `hikyaku doctor`.

mod checks;
mod facts;
mod finding;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use crate::serve::ServeArgs;
use facts::{Facts, Sources, System};
use finding::{Finding, Severity};

/// Options of `hikyaku doctor`: those of `hikyaku serve`, and a few more.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// DNS server that is asked for the sites' HTTPS records. Default: the first of
    /// /etc/resolv.conf.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = resolver)]
    resolver: Option<SocketAddr>,
    /// Directory whose `proc`, `sys` and `etc` are read in place of the system's.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    system: PathBuf,
}

/// Reads an address of a DNS server. The port is 53 where it has none.
fn resolver(text: &str) -> Result<SocketAddr, String> {
    let bare = text.parse::<IpAddr>();
    let bare = bare.map(|address| SocketAddr::new(address, 53));
    bare.or_else(|_| text.parse()).map_err(|_| {
        format!("`{text}` is no address; expected one such as 192.0.2.53 or 127.0.0.1:5353")
    })
}

/// Prints the faults of this machine for a configuration. Fails where a server would not start or
/// clients would refuse it.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let config = args.serve.config()?;
    let sources = Sources {
        system: System::new(&args.system),
        resolver: args.resolver,
    };
    let facts = Facts::gather(config, &sources);
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        findings: checks::all(&facts),
        unseen: checks::unseen(&facts),
    };
    let text = match args.json {
        true => serde_json::to_string_pretty(&report).context("printing JSON")? + "\n",
        false => report.text(),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(match report.count(Severity::Fail) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    findings: Vec<Finding>,
    /// Sentences on facts that this user may not see.
    unseen: Vec<String>,
}

impl Report {
    fn count(&self, severity: Severity) -> usize {
        let of = |finding: &&Finding| finding.severity == severity;
        self.findings.iter().filter(of).count()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let (severity, id) = (finding.severity.name(), finding.id);
            let _ = writeln!(text, "{severity:<5} {id:<22} {}", finding.state);
            for (label, words) in [("clients", &finding.effect), ("mend", &finding.mend)] {
                if !words.is_empty() {
                    let _ = writeln!(text, "      {label:<8} {words}");
                }
            }
        }
        for unseen in &self.unseen {
            let _ = writeln!(text, "not seen: {unseen}");
        }
        let [fail, warn, note] =
            [Severity::Fail, Severity::Warn, Severity::Note].map(|of| self.count(of));
        let _ = writeln!(text, "{fail} fail, {warn} warn, {note} note");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_a_line_with_its_effect_and_remedy_below() {
        let report = Report {
            version: "1",
            findings: vec![
                Finding::ok("a.b", "is well"),
                Finding::warn("c.d", "is small")
                    .so("responses are slow")
                    .mend("make it larger"),
            ],
            unseen: vec!["the owner".to_owned()],
        };
        let want = "\
ok    a.b                    is well
warn  c.d                    is small
      clients  responses are slow
      mend     make it larger
not seen: the owner
0 fail, 1 warn, 0 note
";
        assert_eq!(report.text(), want);
    }

    #[test]
    fn resolvers_have_a_port_or_53() {
        let cases = [
            ("192.0.2.53", Some("192.0.2.53:53")),
            ("127.0.0.1:5353", Some("127.0.0.1:5353")),
            ("2001:db8::1", Some("[2001:db8::1]:53")),
            ("[2001:db8::1]:5353", Some("[2001:db8::1]:5353")),
            ("dns.example", None),
        ];
        for (text, want) in cases {
            let got = resolver(text).map(|address| address.to_string());
            assert_eq!(got.as_deref().ok(), want, "{text}");
            if let Err(error) = got {
                assert!(error.contains("`dns.example` is no address"), "{error}");
            }
        }
    }
}

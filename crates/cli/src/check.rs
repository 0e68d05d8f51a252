//! `hikyaku check`.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use hikyaku_edge::{Config, Findings, FleetMember};

use crate::fleet;
use crate::hint;
use crate::serve::{self, ServeArgs};

/// Options of `hikyaku check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// Compare the configuration with those of the fleet's edges, which the running server knows. Fails where
    /// one differs.
    #[arg(long)]
    fleet: bool,
}

/// Prints the errors of a configuration and the doubts about it. Fails for errors.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let config = args.serve.config()?;
    let Findings { errors, warnings } = Findings::of(&config);
    let errors = errors.into_iter().map(anyhow::Error::from);
    let errors: Vec<_> = errors.chain(serve::check_level(&config).err()).collect();
    let (mut text, wrong) = (String::new(), errors.len());
    for error in errors {
        let _ = writeln!(text, "error: {error:#}");
        if let Some(hint) = hint::hint(&error) {
            let _ = writeln!(text, "hint: {hint}");
        }
    }
    for warning in &warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    let doubtful = warnings.len();
    text.push_str(&match (wrong, doubtful) {
        (0, 0) => format!("the configuration is fine: {}\n", summary(&config)),
        (0, _) => format!(
            "a server would start ({}); {} to look at\n",
            summary(&config),
            count(doubtful, "warning")
        ),
        _ => format!(
            "a server would not start: {}, {}\n",
            count(wrong, "error"),
            count(doubtful, "warning")
        ),
    });
    io::stderr().write_all(text.as_bytes())?;
    let is_alike = !args.fleet || compare(&config)?;
    Ok(match wrong {
        0 if is_alike => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Prints a line for each edge of the fleet, and returns whether all have this configuration.
fn compare(config: &Config) -> anyhow::Result<bool> {
    let status = fleet::status(&config.admin)?;
    let (text, is_alike) = comparison(&config.digest(), &status.members);
    io::stderr().write_all(text.as_bytes())?;
    Ok(is_alike)
}

fn comparison(own: &str, members: &[FleetMember]) -> (String, bool) {
    let mut text = String::new();
    let mut others = 0;
    for member in members {
        let verdict = match member.config == own {
            true => "the same configuration",
            false => "another configuration",
        };
        others += usize::from(member.config != own);
        let _ = writeln!(text, "{}: {verdict}, {}", member.name, member.config);
    }
    let edges = count(members.len(), "edge");
    text.push_str(&match (members.len(), others) {
        (0, _) => "no edge is known: see `hikyaku fleet`\n".to_owned(),
        (_, 0) => format!("{edges} of the fleet, all with this configuration\n"),
        _ => format!("{others} of {edges} of the fleet differ from this configuration, {own}\n"),
    });
    (text, others == 0 && !members.is_empty())
}

/// The sites, routes and addresses that would be served.
fn summary(config: &Config) -> String {
    let of_sites = config.sites.iter().map(|site| site.routes.len());
    let routes = config.routes.len() + of_sites.sum::<usize>();
    // The site of all hosts that no other names.
    let has_others =
        config.root.is_some() || config.upstream.is_some() || !config.routes.is_empty();
    let mut listen: Vec<_> = config.listen.iter().map(ToString::to_string).collect();
    if config.serves_in_clear() {
        let clear = config.http.listen.iter();
        listen.extend(clear.map(|address| format!("{address} in the clear")));
    }
    format!(
        "{}, {}, on {}",
        count(config.sites.len() + usize::from(has_others), "site"),
        count(routes, "route"),
        listen.join(", ")
    )
}

fn count(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, config: &str) -> FleetMember {
        FleetMember {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            pop: None,
            started_ms: 1,
            config: config.to_owned(),
            skew_ms: 0,
            lag_ms: 0,
            heard_ms: 900,
            silent: false,
            own: name == "a",
        }
    }

    #[test]
    fn edges_with_another_configuration_are_named() {
        let (text, is_alike) =
            comparison("c0ffee", &[member("a", "c0ffee"), member("b", "c0ffee")]);
        assert!(is_alike, "{text}");
        assert!(
            text.ends_with("2 edges of the fleet, all with this configuration\n"),
            "{text}"
        );

        let (text, is_alike) = comparison("c0ffee", &[member("a", "c0ffee"), member("b", "decaf")]);
        assert!(!is_alike);
        let want = "a: the same configuration, c0ffee\nb: another configuration, decaf\n\
                    1 of 2 edges of the fleet differ from this configuration, c0ffee\n";
        assert_eq!(text, want);

        let (text, is_alike) = comparison("c0ffee", &[]);
        assert!(!is_alike && text.starts_with("no edge is known"), "{text}");
    }
}

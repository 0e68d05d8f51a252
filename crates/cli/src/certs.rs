//! `hikyaku certs`.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use hikyaku_edge::tls::{AcmeState, CertificateReport, OcspReport};
use http::Method;

use crate::admin::{Demand, ServerArgs};

/// The time limit of the admin API.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Options of `hikyaku certs`.
#[derive(Debug, clap::Args)]
pub(crate) struct CertsArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Asks the server for its certificates and prints them.
pub(crate) fn run(args: &CertsArgs) -> anyhow::Result<()> {
    let body = args.server.ask(Demand {
        method: Method::GET,
        path: "/v1/certificates",
        body: String::new(),
        limit: TIMEOUT,
        without: "it shows the certificates",
    })?;
    let mut out = io::stdout().lock();
    if args.json {
        out.write_all(&body)?;
        return Ok(());
    }
    let reports: Vec<CertificateReport> =
        serde_json::from_slice(&body).context("reading the answer of the admin API")?;
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = since_epoch.map_or(0, |time| time.as_secs().cast_signed());
    out.write_all(table(&reports, now).as_bytes())?;
    Ok(())
}

const HEAD: [&str; 8] = [
    "NAMES",
    "SOURCE",
    "ISSUER",
    "KEY",
    "ENDS",
    "NEXT ORDER",
    "OCSP",
    "STATE",
];

/// A line for each certificate, and one for the last failure of its orders or of its responder.
fn table(reports: &[CertificateReport], now: i64) -> String {
    let mut rows = vec![(HEAD.map(str::to_owned), None)];
    for report in reports {
        let acme = report.acme.as_ref();
        let next = acme.map_or_else(String::new, |acme| when(acme.next_order, now));
        let state = match acme.map(|acme| (acme.state, acme.failures)) {
            Some((AcmeState::Failing, failures)) => format!("failing ({failures})"),
            Some((AcmeState::Waiting, _)) => "waiting".to_owned(),
            Some((AcmeState::Ordering, _)) => "ordering".to_owned(),
            Some((AcmeState::Valid, _)) | None => "valid".to_owned(),
        };
        let names = acme.map_or(&report.names, |acme| &acme.names);
        let error = acme.and_then(|acme| acme.error.as_deref());
        for certificate in &report.certificates {
            let state = match certificate.not_after < now {
                true => "expired".to_owned(),
                false => state.clone(),
            };
            let row = [
                names.join(", "),
                report.source.clone(),
                certificate.issuer.clone(),
                certificate.key.clone(),
                when(certificate.not_after, now),
                next.clone(),
                standing(certificate.ocsp.as_ref(), now),
                state,
            ];
            let ocsp = certificate.ocsp.as_ref();
            let doubt = ocsp.and_then(|ocsp| ocsp.error.as_deref());
            rows.push((row, error.or(doubt)));
        }
    }
    let width = |column: usize| {
        rows.iter()
            .map(|(row, _)| row[column].chars().count())
            .max()
    };
    let widths: [usize; HEAD.len()] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for (row, error) in &rows {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
        if let Some(error) = error {
            let _ = writeln!(text, "    last failure: {error}");
        }
    }
    text
}

/// The standing of a certificate whose responder is asked, and for how long that holds.
fn standing(ocsp: Option<&OcspReport>, now: i64) -> String {
    match ocsp {
        Some(ocsp) if ocsp.responder.is_some() || ocsp.must_staple => match ocsp.next_update {
            Some(ends) => format!("{}, ends {}", ocsp.state, when(ends, now)),
            None => ocsp.state.clone(),
        },
        _ => String::new(),
    }
}

/// A time, in seconds since the Unix epoch, as seen from now.
fn when(at: i64, now: i64) -> String {
    let (seconds, ahead) = (at.abs_diff(now), at >= now);
    let (count, unit) = match seconds {
        0..60 if ahead => return "now".to_owned(),
        0..7200 => (seconds / 60, "min"),
        7200..172_800 => (seconds / 3600, "h"),
        _ => (seconds / 86_400, "days"),
    };
    match ahead {
        true => format!("in {count} {unit}"),
        false => format!("{count} {unit} ago"),
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_edge::tls::{AcmeStatus, ReportedCertificate};

    use super::*;

    const NOW: i64 = 1_800_000_000;
    const DAY: i64 = 86_400;

    fn report(source: &str, not_after: i64, acme: Option<AcmeStatus>) -> CertificateReport {
        CertificateReport {
            site: None,
            source: source.to_owned(),
            self_signed: false,
            names: vec!["a.example".to_owned()],
            certificates: vec![ReportedCertificate {
                key: "ecdsa".to_owned(),
                issuer: "Root".to_owned(),
                not_before: 0,
                not_after,
                fingerprint: String::new(),
                ocsp: None,
            }],
            acme,
        }
    }

    #[test]
    fn certificates_stand_in_columns_with_their_last_failure() {
        let failing = AcmeStatus {
            names: vec!["b.example".to_owned(), "c.example".to_owned()],
            state: AcmeState::Failing,
            directory: None,
            next_order: NOW + 300,
            failures: 2,
            error: Some("ca.example: refused".to_owned()),
        };
        let mut stapled = report("files", NOW + DAY, None);
        let ocsp = |error: Option<&str>, ends: Option<i64>| OcspReport {
            state: ends.map_or("none", |_| "good").to_owned(),
            responder: Some("http://ocsp.example/".to_owned()),
            must_staple: false,
            this_update: ends,
            next_update: ends,
            next_request: Some(NOW),
            error: error.map(str::to_owned),
        };
        stapled.certificates[0].ocsp = Some(ocsp(None, Some(NOW + 3 * DAY)));
        let mut unstapled = report("files", NOW + DAY, None);
        unstapled.certificates[0].ocsp = Some(ocsp(Some("connecting: refused"), None));
        let reports = [
            stapled,
            unstapled,
            report("files", NOW - DAY, None),
            report("acme", NOW + 14 * DAY, Some(failing)),
        ];
        let want = "\
NAMES                 SOURCE  ISSUER  KEY    ENDS        NEXT ORDER  OCSP                  STATE
a.example             files   Root    ecdsa  in 24 h                 good, ends in 3 days  valid
a.example             files   Root    ecdsa  in 24 h                 none                  valid
    last failure: connecting: refused
a.example             files   Root    ecdsa  24 h ago                                      expired
b.example, c.example  acme    Root    ecdsa  in 14 days  in 5 min                          failing (2)
    last failure: ca.example: refused
";
        assert_eq!(table(&reports, NOW), want);
    }

    #[test]
    fn times_are_told_from_now() {
        for (at, want) in [
            (0, "now"),
            (59, "now"),
            (-1, "0 min ago"),
            (60, "in 1 min"),
            (7199, "in 119 min"),
            (7200, "in 2 h"),
            (2 * DAY, "in 2 days"),
            (-90 * DAY, "90 days ago"),
        ] {
            assert_eq!(when(NOW + at, NOW), want, "{at}");
        }
    }
}

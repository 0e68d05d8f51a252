//! Reports of failures: Network Error Logging over the Reporting API (W3C).

use http::HeaderValue;
use serde::Deserialize;

use crate::metrics::BeaconCounts;

/// Seconds for which a browser keeps the policy: as long as the advertisement of HTTP/3 at most.
const MAX_AGE: u32 = 86_400;
/// Reports of one request. Chromium sends at most 100.
const MAX_REPORTS: usize = 128;

/// The fields that ask browsers to report.
#[derive(Debug)]
pub(super) struct NelHeaders {
    /// Chromium reads the collector of these reports from this field alone, and not from
    /// `Reporting-Endpoints`, which is for reports of one document.
    pub(super) report_to: HeaderValue,
    pub(super) nel: HeaderValue,
}

impl NelHeaders {
    /// For reports that go to this path; `None` if it can't stand in a field.
    pub(super) fn new(path: &str) -> Option<Self> {
        let report_to = format!(
            "{{\"group\":\"hikyaku\",\"max_age\":{MAX_AGE},\"endpoints\":[{{\"url\":\"{path}\"}}]}}"
        );
        let nel =
            format!("{{\"report_to\":\"hikyaku\",\"max_age\":{MAX_AGE},\"failure_fraction\":1.0}}");
        Some(Self {
            report_to: HeaderValue::try_from(report_to).ok()?,
            nel: HeaderValue::try_from(nel).ok()?,
        })
    }
}

#[derive(Debug, Deserialize)]
struct Report {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    body: Body,
}

/// The part of a report that is counted. URLs, addresses and referrers are not even read.
#[derive(Debug, Default, Deserialize)]
struct Body {
    #[serde(default)]
    phase: String,
    #[serde(default, rename = "type")]
    kind: String,
}

/// Counts the reports of a request; `false` if these are none.
pub(super) fn count(text: &[u8], counts: &BeaconCounts) -> bool {
    let Ok(reports) = serde_json::from_slice::<Vec<Report>>(text) else {
        return false;
    };
    if reports.len() > MAX_REPORTS {
        return false;
    }
    for report in reports
        .iter()
        .filter(|report| report.kind == "network-error")
    {
        counts.on_nel(&report.body.phase, &report.body.kind);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_the_collector() {
        let headers = NelHeaders::new("/a/nel").unwrap();
        for (value, field, want) in [
            (&headers.report_to, "/endpoints/0/url", "/a/nel"),
            (&headers.report_to, "/group", "hikyaku"),
            (&headers.nel, "/report_to", "hikyaku"),
        ] {
            let json: serde_json::Value = serde_json::from_slice(value.as_bytes()).unwrap();
            assert_eq!(json.pointer(field).unwrap(), want, "{json}");
        }
    }

    #[test]
    fn reports_are_read_strictly() {
        let many = format!("[{}]", vec![r#"{"type":"x"}"#; 129].join(","));
        let cases = [
            ("[]", true),
            (
                r#"[{"age":1,"type":"network-error","url":"https://a/","user_agent":"x","body":{"phase":"dns","type":"dns.name_not_resolved","elapsed_time":3}}]"#,
                true,
            ),
            (r#"[{"type":"deprecation","body":{"id":"x"}}]"#, true),
            (r#"[{"type":"network-error"}]"#, true),
            (r#"{"type":"network-error"}"#, false),
            (r#"[{"type":"network-error","body":1}]"#, false),
            ("", false),
            (many.as_str(), false),
        ];
        for (text, want) in cases {
            assert_eq!(
                count(text.as_bytes(), &BeaconCounts::default()),
                want,
                "{text}"
            );
        }
    }
}

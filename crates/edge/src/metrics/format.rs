//! The text formats of metrics, of which a scraper chooses one by `Accept`.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, header};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' own text format, 0.0.4.
    Prometheus,
}

impl Format {
    /// The format that the client prefers (RFC 9110 §12.5.1). Who names none of the two gets Prometheus' own,
    /// which all scrapers read.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let (mut open, mut plain) = (Quality::NONE, Quality::NONE);
        for element in elements(headers, &header::ACCEPT) {
            let Some(range) = Range::parse(element) else {
                continue;
            };
            open = open.or(range.quality_of("application", "openmetrics-text", &["1.0.0"]));
            plain = plain.or(range.quality_of("text", "plain", &["0.0.4"]));
        }
        match open.q > plain.q || open.q > 0 && open.q == plain.q && open.exact > plain.exact {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    /// The value of `Content-Type`.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// An exposition of OpenMetrics in this format.
    pub(crate) fn write(self, exposition: String) -> String {
        match self {
            Self::OpenMetrics => exposition,
            Self::Prometheus => prometheus(&exposition),
        }
    }
}

/// Whether the client takes gzip (RFC 9110 §12.5.3).
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let mut of_all = false;
    for element in elements(headers, &header::ACCEPT_ENCODING) {
        let (coding, parameters) = element.split_once(';').unwrap_or((element, ""));
        let accepted = quality(parameters) > 0;
        let coding = coding.trim();
        if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
            return accepted;
        }
        of_all |= coding == "*" && accepted;
    }
    of_all
}

/// How much a format is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quality {
    /// In thousandths.
    q: u16,
    /// How exactly the range names it; 0 for not at all.
    exact: u8,
}

impl Quality {
    const NONE: Self = Self { q: 0, exact: 0 };

    /// The one of the range that is more exact.
    fn or(self, other: Option<Self>) -> Self {
        other
            .filter(|other| other.exact > self.exact)
            .unwrap_or(self)
    }
}

/// A media range of `Accept`.
#[derive(Debug)]
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    version: Option<Cow<'a, str>>,
    q: u16,
}

impl<'a> Range<'a> {
    fn parse(element: &'a str) -> Option<Self> {
        let (media, parameters) = element.split_once(';').unwrap_or((element, ""));
        let (kind, subtype) = media.trim().split_once('/')?;
        Some(Self {
            kind,
            subtype,
            version: parameter(parameters, "version"),
            q: quality(parameters),
        })
    }

    /// The quality that it gives to a media type of one of these versions; `None` if it is not in the range.
    fn quality_of(&self, kind: &str, subtype: &str, versions: &[&str]) -> Option<Quality> {
        let exact = match (self.kind, self.subtype) {
            ("*", "*") => 1,
            (of, "*") if of.eq_ignore_ascii_case(kind) => 2,
            (of, sub) if of.eq_ignore_ascii_case(kind) && sub.eq_ignore_ascii_case(subtype) => {
                match &self.version {
                    None => 3,
                    Some(version) if versions.contains(&version.as_ref()) => 4,
                    Some(_) => return None,
                }
            }
            _ => return None,
        };
        let q = self.q;
        Some(Quality { q, exact })
    }
}

/// The elements of a field. Quoted strings of these have no commas.
fn elements<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let elements = values.flat_map(|value| value.split(','));
    elements
        .map(str::trim)
        .filter(|element| !element.is_empty())
}

/// The value of a parameter, without its quotes.
fn parameter<'a>(parameters: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let mut pairs = parameters
        .split(';')
        .filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(key, value)| {
        let value = value.trim();
        let bare = value
            .strip_prefix('"')
            .and_then(|value| value.strip_suffix('"'));
        let is_it = key.trim().eq_ignore_ascii_case(name);
        is_it.then(|| match bare {
            Some(quoted) if quoted.contains('\\') => quoted.replace('\\', "").into(),
            Some(quoted) => quoted.into(),
            None => value.into(),
        })
    })
}

/// The weight in thousandths (RFC 9110 §12.4.2): 1 where there is none, 0 where it can't be read.
fn quality(parameters: &str) -> u16 {
    let Some(weight) = parameter(parameters, "q") else {
        return 1000;
    };
    let weight = weight.parse::<f32>().unwrap_or(0.0);
    match (0.0..=1.0).contains(&weight) {
        true => (weight * 1000.0) as u16,
        false => 0,
    }
}

/// Rewrites OpenMetrics as the text format 0.0.4. A counter's own name has `_total` there. An info metric is a
/// gauge whose name has `_info`. There is neither `UNIT` nor `EOF`.
fn prometheus(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(text) = line.strip_prefix("# HELP ") {
            help = text.split_once(' ');
        } else if let Some(text) = line.strip_prefix("# TYPE ") {
            let (name, kind) = text.split_once(' ').unwrap_or((text, "unknown"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "stateset" => ("", "gauge"),
                "gauge" | "histogram" | "summary" => ("", kind),
                _ => ("", "untyped"),
            };
            if let Some((_, help)) = help.take().filter(|(named, _)| *named == name) {
                out.extend(["# HELP ", name, suffix, " ", help, "\n"]);
            }
            out.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            out.extend([line, "\n"]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, values: &[&str]) -> HeaderMap {
        let values = values.iter().map(|value| value.parse().unwrap());
        values.map(|value| (name.clone(), value)).collect()
    }

    #[test]
    fn scrapers_get_the_format_that_they_prefer() {
        use Format::{OpenMetrics, Prometheus};
        let of_prometheus_2 = "application/openmetrics-text;version=1.0.0,\
                               application/openmetrics-text;version=0.0.1;q=0.75,\
                               text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let of_prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                               application/openmetrics-text;version=0.0.1;q=0.5,\
                               text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                               text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        // name, fields, format
        let cases: &[(&str, &[&str], Format)] = &[
            ("nothing", &[], Prometheus),
            ("curl", &["*/*"], Prometheus),
            ("a browser", &[browser], Prometheus),
            ("Prometheus 2", &[of_prometheus_2], OpenMetrics),
            ("Prometheus 3", &[of_prometheus_3], OpenMetrics),
            (
                "OpenMetrics",
                &["application/openmetrics-text"],
                OpenMetrics,
            ),
            (
                "upper case",
                &["Application/OpenMetrics-Text; Version=\"1.0.0\""],
                OpenMetrics,
            ),
            (
                "another version of it",
                &["application/openmetrics-text; version=2.0.0"],
                Prometheus,
            ),
            (
                "text first",
                &["text/plain, application/openmetrics-text;q=0.9"],
                Prometheus,
            ),
            (
                "OpenMetrics first",
                &["text/plain;q=0.9", "application/openmetrics-text"],
                OpenMetrics,
            ),
            (
                "equal",
                &["text/plain, application/openmetrics-text"],
                Prometheus,
            ),
            (
                "equal, of a version",
                &["*/*, application/openmetrics-text; version=1.0.0"],
                OpenMetrics,
            ),
            (
                "refused",
                &["application/openmetrics-text;q=0, */*;q=0.1"],
                Prometheus,
            ),
            ("all of its kind", &["application/*"], OpenMetrics),
            (
                "text refused",
                &["text/plain;q=0, application/openmetrics-text;q=0.1"],
                OpenMetrics,
            ),
            (
                "no weight",
                &["application/openmetrics-text;q=much, text/plain;q=0.1"],
                Prometheus,
            ),
            (
                "too much",
                &["application/openmetrics-text;q=2, text/plain;q=0.1"],
                Prometheus,
            ),
            ("nothing of ours", &["image/png"], Prometheus),
            ("nonsense", &["openmetrics, ;;=, /"], Prometheus),
        ];
        for (name, fields, want) in cases {
            let got = Format::of(&headers(&header::ACCEPT, fields));
            assert_eq!(got, *want, "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_field_leads_to_a_format(value in "[a-z/*;=,.0-9 \"\\\\-]{0,80}|[ -~]{0,80}") {
            let _ = Format::of(&headers(&header::ACCEPT, &[&value]));
            let _ = accepts_gzip(&headers(&header::ACCEPT_ENCODING, &[&value]));
        }
    }

    #[test]
    fn gzip_is_for_those_who_take_it() {
        let cases: &[(&[&str], bool)] = &[
            (&[], false),
            (&["gzip"], true),
            (&["br, X-GZIP;q=0.5"], true),
            (&["br", "gzip"], true),
            (&["gzip;q=0"], false),
            (&["*"], true),
            (&["*;q=0"], false),
            (&["*, gzip;q=0.0"], false),
            (&["identity"], false),
        ];
        for (fields, want) in cases {
            let got = accepts_gzip(&headers(&header::ACCEPT_ENCODING, fields));
            assert_eq!(got, *want, "{fields:?}");
        }
    }

    #[test]
    fn types_and_names_are_those_of_the_format() {
        let open = "# HELP a_requests Requests.\n# TYPE a_requests counter\n\
                    a_requests_total{x=\"y # z\"} 1\n\
                    # HELP a_bytes Bytes.\n# TYPE a_bytes gauge\n# UNIT a_bytes bytes\na_bytes 2\n\
                    # HELP a_build Build.\n# TYPE a_build info\na_build_info{v=\"1\"} 1\n\
                    # HELP a_time_seconds Time.\n# TYPE a_time_seconds histogram\n\
                    # UNIT a_time_seconds seconds\na_time_seconds_bucket{le=\"+Inf\"} 3\n\
                    # TYPE a_thing unknown\na_thing 4\n# EOF\n";
        let plain = "# HELP a_requests_total Requests.\n# TYPE a_requests_total counter\n\
                     a_requests_total{x=\"y # z\"} 1\n\
                     # HELP a_bytes Bytes.\n# TYPE a_bytes gauge\na_bytes 2\n\
                     # HELP a_build_info Build.\n# TYPE a_build_info gauge\na_build_info{v=\"1\"} 1\n\
                     # HELP a_time_seconds Time.\n# TYPE a_time_seconds histogram\n\
                     a_time_seconds_bucket{le=\"+Inf\"} 3\n\
                     # TYPE a_thing untyped\na_thing 4\n";
        assert_eq!(Format::Prometheus.write(open.to_owned()), plain);
        assert_eq!(Format::OpenMetrics.write(open.to_owned()), open);
    }
}

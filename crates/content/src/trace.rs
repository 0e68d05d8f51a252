//! Traces that this server takes part in (W3C Trace Context).

use std::fmt;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::UpstreamError;

/// The field that names the trace, and the caller's span (Trace Context §3.2).
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The field with data of other tracing systems (Trace Context §3.3).
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// A span's place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Of the whole trace; not 0.
    pub trace: u128,
    /// Of this span; not 0.
    pub span: u64,
    /// Whether the trace is recorded.
    pub sampled: bool,
}

impl TraceContext {
    /// The caller's span, by the only `traceparent` of a request. `None` where there is none that can be read,
    /// so that a trace has to begin anew (Trace Context §4.3).
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut fields = headers.get_all(TRACEPARENT).into_iter();
        let (field, None) = (fields.next()?, fields.next()) else {
            return None;
        };
        Self::parse(field.to_str().ok()?.trim())
    }

    /// Reads `VERSION-TRACE-SPAN-FLAGS`. Of later versions only this beginning is known (Trace Context §3.2.4).
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '-');
        let version = number(parts.next()?, 2)?;
        let trace = number(parts.next()?, 32)?;
        let span = number(parts.next()?, 16)?;
        let flags = number(parts.next()?, 2)?;
        let has_rest = parts.next().is_some();
        let is_known = version != 0xff && !(version == 0 && has_rest);
        (is_known && trace != 0 && span != 0).then_some(Self {
            trace,
            span: u64::try_from(span).ok()?,
            sampled: flags & 1 == 1,
        })
    }

    /// The value of `traceparent` for requests of this span.
    pub fn traceparent(&self) -> HeaderValue {
        let text = self.to_string();
        // It has hexadecimal digits and dashes alone.
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trace,
            span,
            sampled,
        } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(*sampled))
    }
}

/// A number of so many hexadecimal digits in lower case.
fn number(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_number = text.len() == digits && text.bytes().all(is_digit);
    is_number.then(|| u128::from_str_radix(text, 16).ok())?
}

/// Takes the spans that content makes.
pub trait Spans: fmt::Debug + Send + Sync {
    /// A number for a new span; not 0.
    fn number(&self) -> u64;

    /// Takes the span of a request to an upstream, which is over.
    fn asked(&self, span: UpstreamSpan);
}

/// The trace of a request, in its extensions.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The server's span of the request.
    pub context: TraceContext,
    /// Where spans go.
    pub spans: std::sync::Arc<dyn Spans>,
}

impl Trace {
    /// A span below the server's.
    pub(crate) fn child(&self) -> TraceContext {
        TraceContext {
            span: self.spans.number(),
            ..self.context
        }
    }
}

/// A request to an upstream, until the head of its response.
#[derive(Clone, Debug)]
pub struct UpstreamSpan {
    /// Its place.
    pub context: TraceContext,
    /// The server's span.
    pub parent: u64,
    /// When it began.
    pub started: Instant,
    /// How long it took.
    pub time: Duration,
    /// The request's method.
    pub method: Method,
    /// The URL of the request, without its query.
    pub url: String,
    /// Host, address or path of the socket of the upstream.
    pub address: String,
    /// `None` of a socket.
    pub port: Option<u16>,
    /// Other upstreams that were asked before.
    pub resends: usize,
    /// The status of the response, or the failure; `None` of it where the client's request ended early.
    pub outcome: Result<StatusCode, Option<UpstreamError>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn parents_are_read_as_the_recommendation_has_it() {
        let known = |sampled| {
            Some(TraceContext {
                trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
                span: 0xb7ad_6b71_6920_3331,
                sampled,
            })
        };
        // name, value, context
        let cases = [
            ("sampled", format!("00-{TRACE}-{SPAN}-01"), known(true)),
            ("not sampled", format!("00-{TRACE}-{SPAN}-00"), known(false)),
            ("other flags", format!("00-{TRACE}-{SPAN}-03"), known(true)),
            (
                "a later version",
                format!("cc-{TRACE}-{SPAN}-01"),
                known(true),
            ),
            (
                "and more of it",
                format!("cc-{TRACE}-{SPAN}-01-what"),
                known(true),
            ),
            (
                "more of this one",
                format!("00-{TRACE}-{SPAN}-01-what"),
                None,
            ),
            ("no version", format!("ff-{TRACE}-{SPAN}-01"), None),
            (
                "upper case",
                format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
                None,
            ),
            ("no trace", format!("00-{}-{SPAN}-01", "0".repeat(32)), None),
            ("no span", format!("00-{TRACE}-{}-01", "0".repeat(16)), None),
            (
                "a short trace",
                format!("00-{}-{SPAN}-01", &TRACE[1..]),
                None,
            ),
            ("a sign", format!("00-+{}-{SPAN}-01", &TRACE[1..]), None),
            ("no flags", format!("00-{TRACE}-{SPAN}"), None),
            ("flags of a digit", format!("00-{TRACE}-{SPAN}-1"), None),
            ("nothing", String::new(), None),
        ];
        for (name, value, want) in cases {
            let mut headers = HeaderMap::new();
            headers.append(TRACEPARENT, value.parse().unwrap());
            assert_eq!(TraceContext::of(&headers), want, "{name}");
            headers.append(TRACEPARENT, value.parse().unwrap());
            assert_eq!(TraceContext::of(&headers), None, "{name}, twice");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_field_is_read_or_left(value in "[0-9a-f-]{0,64}|[ -~]{0,64}|00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}") {
            if let Some(context) = TraceContext::parse(&value) {
                proptest::prop_assert!(context.trace != 0 && context.span != 0);
                proptest::prop_assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
            }
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let value = format!("00-{TRACE}-{SPAN}-01");
        let context = TraceContext::parse(&value).unwrap();
        assert_eq!(context.traceparent(), value);
        let small = TraceContext {
            trace: 1,
            span: 2,
            sampled: false,
        };
        assert_eq!(TraceContext::parse(&small.to_string()), Some(small));
    }
}

//! The Alt-Svc header field (RFC 7838 §3).

use std::iter::Peekable;
use std::str::Chars;
use std::time::Duration;

use percent_encoding::percent_decode_str;

/// The value of an Alt-Svc field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AltSvc {
    /// `clear`: all alternatives of the origin are invalid.
    Clear,
    /// Alternatives, most preferred first.
    Alternatives(Vec<Alternative>),
}

/// One alternative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// ALPN protocol name, percent-decoded. It consists of octets, so it is no string.
    pub protocol: Vec<u8>,
    /// Host; empty for the origin's host. IPv6 addresses have no brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Time for which the alternative stays fresh. Default 24 hours (RFC 7838 §3.1).
    pub ma: Duration,
    /// Whether the alternative survives a change of the client's network.
    pub persist: bool,
}

/// The reason why a value is no Alt-Svc field. The whole field is then to be ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The field does not follow the grammar.
    #[error("expected {0}")]
    Expected(&'static str),
    /// The authority is not `[host]:port`.
    #[error("alt-authority is not [host]:port")]
    Authority,
    /// The protocol name's percent-encoding is broken.
    #[error("protocol-id is not percent-encoded")]
    ProtocolId,
}

/// Parses the value of an Alt-Svc field. The caller joins several fields by commas (RFC 9110 §5.2).
///
/// Unknown parameters are ignored, as are known ones with an invalid value. Of repeated parameters
/// the first counts.
///
/// # Errors
/// If the value does not follow the grammar.
pub fn parse(value: &str) -> Result<AltSvc, ParseError> {
    if value.trim_matches(OWS) == "clear" {
        return Ok(AltSvc::Clear);
    }
    let mut input = Input(value.chars().peekable());
    let mut alternatives = Vec::new();
    loop {
        // RFC 9110 §5.6.1.2: a recipient must accept empty list elements.
        input.skip(|c| OWS.contains(&c) || c == ',');
        if input.is_empty() {
            break;
        }
        alternatives.push(alternative(&mut input)?);
        input.skip(|c| OWS.contains(&c));
        if !input.is_empty() && !input.eat(',') {
            return Err(ParseError::Expected("`,`"));
        }
    }
    if alternatives.is_empty() {
        return Err(ParseError::Expected("an alternative or `clear`"));
    }
    Ok(AltSvc::Alternatives(alternatives))
}

const OWS: [char; 2] = [' ', '\t'];
const DEFAULT_MA: Duration = Duration::from_secs(24 * 3600);

/// Parses `protocol-id "=" alt-authority *( OWS ";" OWS parameter )`.
fn alternative(input: &mut Input<'_>) -> Result<Alternative, ParseError> {
    let protocol = protocol(&input.token()?)?;
    if !input.eat('=') {
        return Err(ParseError::Expected("`=` after protocol-id"));
    }
    let (host, port) = authority(&input.quoted_string()?)?;
    let (mut ma, mut persist) = (None, None);
    loop {
        input.skip(|c| OWS.contains(&c));
        if !input.eat(';') {
            break;
        }
        input.skip(|c| OWS.contains(&c));
        let name = input.token()?;
        if !input.eat('=') {
            return Err(ParseError::Expected("`=` after a parameter's name"));
        }
        let value = input.token_or_quoted_string()?;
        match name.to_ascii_lowercase().as_str() {
            "ma" => ma = ma.or_else(|| delta_seconds(&value)),
            "persist" => persist = persist.or(Some(value == "1")),
            _ => {}
        }
    }
    Ok(Alternative {
        protocol,
        host,
        port,
        ma: ma.unwrap_or(DEFAULT_MA),
        persist: persist.unwrap_or(false),
    })
}

fn protocol(encoded: &str) -> Result<Vec<u8>, ParseError> {
    let mut rest = encoded;
    while let Some(at) = rest.find('%') {
        let digits = rest.get(at + 1..at + 3).ok_or(ParseError::ProtocolId)?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ParseError::ProtocolId);
        }
        rest = &rest[at + 3..];
    }
    Ok(percent_decode_str(encoded).collect())
}

/// Parses `[ uri-host ] ":" port`.
fn authority(text: &str) -> Result<(String, u16), ParseError> {
    let (host, port) = text.rsplit_once(':').ok_or(ParseError::Authority)?;
    if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ParseError::Authority);
    }
    let port = port.parse().map_err(|_| ParseError::Authority)?;
    if port == 0 {
        return Err(ParseError::Authority);
    }
    let address = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let valid = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&b)),
    };
    if !valid {
        return Err(ParseError::Authority);
    }
    Ok((address.unwrap_or(host).to_ascii_lowercase(), port))
}

/// Parses seconds. RFC 9111 §1.2.2: a value too large to represent counts as 2^31 seconds.
fn delta_seconds(text: &str) -> Option<Duration> {
    const LARGEST: u64 = 1 << 31;
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| Duration::from_secs(text.parse().unwrap_or(LARGEST).min(LARGEST)))
}

/// The text that remains to be parsed.
struct Input<'a>(Peekable<Chars<'a>>);

impl Input<'_> {
    fn is_empty(&mut self) -> bool {
        self.0.peek().is_none()
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.0.next_if_eq(&wanted).is_some()
    }

    fn skip(&mut self, class: impl Fn(char) -> bool) {
        while self.0.next_if(|c| class(*c)).is_some() {}
    }

    /// Reads a token (RFC 9110 §5.6.2).
    fn token(&mut self) -> Result<String, ParseError> {
        let is_tchar = |c: &char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(*c);
        let mut token = String::new();
        while let Some(c) = self.0.next_if(is_tchar) {
            token.push(c);
        }
        if token.is_empty() {
            return Err(ParseError::Expected("a token"));
        }
        Ok(token)
    }

    /// Reads a quoted string (RFC 9110 §5.6.4).
    fn quoted_string(&mut self) -> Result<String, ParseError> {
        if !self.eat('"') {
            return Err(ParseError::Expected("a quoted string"));
        }
        let mut text = String::new();
        loop {
            match self.0.next() {
                Some('"') => return Ok(text),
                Some('\\') => text.extend(self.0.next()),
                Some(c) => text.push(c),
                None => return Err(ParseError::Expected("the closing quote")),
            }
        }
    }

    fn token_or_quoted_string(&mut self) -> Result<String, ParseError> {
        if self.0.peek() == Some(&'"') {
            self.quoted_string()
        } else {
            self.token()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn h3(host: &str, port: u16, ma: u64) -> Alternative {
        Alternative {
            protocol: b"h3".to_vec(),
            host: host.to_owned(),
            port,
            ma: Duration::from_secs(ma),
            persist: false,
        }
    }

    #[test]
    fn accepted() {
        const DAY: u64 = 86_400;
        let cases: &[(&str, Vec<Alternative>)] = &[
            (r#"h3=":443""#, vec![h3("", 443, DAY)]),
            (r#"h3=":443"; ma=3600"#, vec![h3("", 443, 3600)]),
            (
                r#"h3="alt.Example.com:8443";ma=60"#,
                vec![h3("alt.example.com", 8443, 60)],
            ),
            (
                r#"h3="[2001:db8::1]:443";ma=0"#,
                vec![h3("2001:db8::1", 443, 0)],
            ),
            (
                r#" , h3=":1" , ,h3=":2"	;	MA="7" ,"#,
                vec![h3("", 1, DAY), h3("", 2, 7)],
            ),
            (
                r#"h3=":443"; v="46,43"; ma=5; ma=9; x=y"#,
                vec![h3("", 443, 5)],
            ),
            (r#"h3=":443"; ma=-5"#, vec![h3("", 443, DAY)]),
            (
                r#"h3=":443"; ma=99999999999999999999999"#,
                vec![h3("", 443, 1 << 31)],
            ),
            (r#"%68%33=":443""#, vec![h3("", 443, DAY)]),
            (r#"h3=":\443""#, vec![h3("", 443, DAY)]),
            (
                r#"w%3Dx%3Ay#z="b:8000"; persist=1"#,
                vec![Alternative {
                    protocol: b"w=x:y#z".to_vec(),
                    persist: true,
                    ..h3("b", 8000, DAY)
                }],
            ),
        ];
        for (value, want) in cases {
            let want = AltSvc::Alternatives(want.clone());
            assert_eq!(parse(value), Ok(want), "{value}");
        }
    }

    #[test]
    fn clear_stands_alone_and_is_case_sensitive() {
        assert_eq!(parse("clear"), Ok(AltSvc::Clear));
        assert_eq!(parse(" clear\t"), Ok(AltSvc::Clear));
        assert!(parse("Clear").is_err());
        assert!(parse(r#"clear, h3=":443""#).is_err());
    }

    #[test]
    fn refused() {
        let cases = [
            "",
            ",",
            "h3",
            "h3=",
            "h3=:443",
            r#"="x:1""#,
            r#"h3=":443"#,
            r#"h3="443""#,
            r#"h3=":""#,
            r#"h3=":0""#,
            r#"h3=":65536""#,
            r#"h3=":+80""#,
            r#"h3="a b:80""#,
            r#"h3="[::1:80""#,
            r#"h3="::1:80""#,
            r#"h3="user@host:80""#,
            r#"h%3=":443""#,
            r#"h%zz=":443""#,
            r#"h3 =":443""#,
            r#"h3=":443";"#,
            r#"h3=":443"; ma"#,
            r#"h3=":443" h2=":443""#,
        ];
        for value in cases {
            assert!(parse(value).is_err(), "{value}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(value in ".*") {
            let _ = parse(&value);
        }

        #[test]
        fn never_panics_near_the_grammar(value in "[h3%=\":;, ma0-9\\\\\\[\\]a-f]{0,40}") {
            let _ = parse(&value);
        }

        #[test]
        fn reads_what_servers_write(port in 1u16.., ma in 0u64..=1 << 31) {
            let value = format!("h3=\":{port}\"; ma={ma}");
            prop_assert_eq!(parse(&value), Ok(AltSvc::Alternatives(vec![h3("", port, ma)])));
        }
    }
}

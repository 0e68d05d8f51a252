//! The checked options.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};

use super::args::{AltSvcMode, GetArgs, HttpChoice};
use super::error::GetError;
use super::overrides::Overrides;
use super::target::{Target, Template};

/// The settings of a session.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) targets: Vec<Target>,
    pub(super) template: Template,
    pub(super) http: HttpChoice,
    pub(super) alt_svc: AltSvcMode,
    /// Connections to an origin over HTTP/2 or HTTP/3.
    pub(super) connections: usize,
    /// Connections to an origin over HTTP/1.1.
    pub(super) connections_http1: usize,
    /// Requests at once on a connection.
    pub(super) parallel: usize,
    pub(super) timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) fail: bool,
    pub(super) output: Option<PathBuf>,
    pub(super) overrides: Overrides,
    pub(super) family: Family,
    pub(super) local: Option<IpAddr>,
    pub(super) mptcp: bool,
    pub(super) congestion: Option<String>,
    pub(super) receive_window: u32,
}

/// The allowed address families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Any,
    V4,
    V6,
}

impl Family {
    pub(super) fn allows(self, address: SocketAddr) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
}

/// The number of connections that browsers open to an origin over HTTP/1.1.
const BROWSER_HTTP1_CONNECTIONS: usize = 6;

impl Settings {
    /// Checks the options.
    ///
    /// # Errors
    /// If a URL, a header field or a combination of options is wrong.
    pub(super) fn new(args: &GetArgs) -> Result<Self, GetError> {
        let targets = args
            .urls
            .iter()
            .map(|url| Target::parse(url))
            .collect::<Result<Vec<_>, _>>()?;
        check(args, &targets)?;
        let connections = args.connections.map(usize::from);
        let http1_default = if args.page {
            BROWSER_HTTP1_CONNECTIONS
        } else {
            1
        };
        Ok(Self {
            targets,
            template: template(args)?,
            http: args.http,
            alt_svc: alt_svc(args),
            connections: connections.unwrap_or(1),
            connections_http1: connections.unwrap_or(http1_default),
            parallel: args.parallel.map_or(1, usize::from),
            timeout: args.timeout,
            connect_timeout: args.connect_timeout,
            fail: args.fail,
            output: args.output.clone(),
            overrides: overrides(args)?,
            family: match (args.ipv4, args.ipv6) {
                (true, _) => Family::V4,
                (_, true) => Family::V6,
                _ => Family::Any,
            },
            local: args.local,
            mptcp: args.mptcp,
            congestion: args.congestion.clone(),
            receive_window: args.receive_window,
        })
    }
}

fn check(args: &GetArgs, targets: &[Target]) -> Result<(), GetError> {
    let refuse = |text: &str| Err(GetError::Usage(text.to_owned()));
    if args.http != HttpChoice::Auto && args.alt_svc.is_some_and(|m| m != AltSvcMode::Ignore) {
        return refuse("--alt-svc moves the client between versions: use it with --http auto");
    }
    if args.alt_svc_cache.is_some() && alt_svc(args) == AltSvcMode::Ignore {
        return refuse("--alt-svc-cache has no use where Alt-Svc is ignored");
    }
    if args.output.is_some() && targets.len() > 1 {
        return refuse("--output takes the body of one URL: give one");
    }
    if args.requests.is_some() && targets.len() > 1 {
        return refuse("--requests loads one URL: give one");
    }
    if args.warm && args.repeat < 2 {
        return refuse("--warm keeps connections between repeats: give --repeat N");
    }
    if args.http == HttpChoice::Http3 {
        if let Some(plain) = targets.iter().find(|target| !target.origin.secure) {
            return Err(GetError::Url {
                url: plain.url.to_string(),
                reason: "HTTP/3 is always encrypted; write https://".to_owned(),
            });
        }
        if args.mptcp {
            return refuse("--mptcp needs TCP, but --http 3 runs over UDP: leave one out");
        }
    }
    Ok(())
}

/// Returns the reaction to Alt-Svc. A pinned version and load mode ignore it, since every request
/// has to use the same transport.
fn alt_svc(args: &GetArgs) -> AltSvcMode {
    if args.http == HttpChoice::Auto && args.requests.is_none() {
        args.alt_svc.unwrap_or(AltSvcMode::Follow)
    } else {
        AltSvcMode::Ignore
    }
}

fn template(args: &GetArgs) -> Result<Template, GetError> {
    let body = match &args.data {
        None => Bytes::new(),
        Some(data) => match data.strip_prefix('@') {
            None => Bytes::from(data.clone()),
            Some(path) => fs::read(path)
                .map(Bytes::from)
                .map_err(|source| GetError::File {
                    doing: "reading the request's body from",
                    path: path.into(),
                    source,
                })?,
        },
    };
    let method = match &args.method {
        Some(name) => Method::from_bytes(name.as_bytes())
            .map_err(|_| GetError::Usage(format!("`{name}` is not an HTTP method")))?,
        None if args.data.is_some() => Method::POST,
        None => Method::GET,
    };
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    if alt_svc(args) != AltSvcMode::Ignore {
        // Browsers send it with each request, so that a server knows which clients its
        // advertisements reach.
        headers.insert("sec-fetch-site", HeaderValue::from_static("none"));
    }
    let mut given = HeaderMap::new();
    for field in &args.headers {
        let (name, value) = parse_field(field)?;
        given.append(name, value);
    }
    // A given field overrides a default one, since extending replaces it.
    headers.extend(given);
    Ok(Template {
        method,
        headers,
        body,
    })
}

const USER_AGENT_VALUE: &str = concat!("hikyaku/", env!("CARGO_PKG_VERSION"));

fn parse_field(field: &str) -> Result<(HeaderName, HeaderValue), GetError> {
    let parse = || {
        let (name, value) = field.split_once(':')?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
        let value = HeaderValue::from_str(value.trim()).ok()?;
        Some((name, value))
    };
    parse().ok_or_else(|| {
        GetError::Usage(format!(
            "`{field}` is not a header field; write 'Name: value'"
        ))
    })
}

/// Returns the addresses of `--resolve`, whose changes need connections that are opened after them.
fn overrides(args: &GetArgs) -> Result<Overrides, GetError> {
    let overrides = Overrides::parse(&args.resolve)?;
    let last = overrides.last_change();
    if last >= args.repeat {
        return Err(GetError::Usage(format!(
            "--resolve names repeat {last}, but the last one is {}: they are counted from 0",
            args.repeat - 1
        )));
    }
    if last > 0 && args.warm {
        let why = "--warm keeps connections, so a --resolve with @REPEAT has no use: leave one out";
        return Err(GetError::Usage(why.to_owned()));
    }
    Ok(overrides)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        get: GetArgs,
    }

    fn settings(line: &str) -> Result<Settings, String> {
        let words = std::iter::once("get").chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        Settings::new(&cli.get).map_err(|error| error.to_string())
    }

    #[test]
    fn senseless_combinations_are_rejected() {
        let cases = [
            ("https://a.test --http 2 --alt-svc follow", "--http auto"),
            ("https://a.test --http 3 --mptcp", "leave one out"),
            ("http://a.test --http 3", "write https://"),
            ("https://a.test https://b.test -o x", "give one"),
            ("https://a.test https://b.test --requests 5", "give one"),
            ("https://a.test --warm", "--repeat"),
            ("https://a.test -H nonsense", "Name: value"),
            ("https://a.test --resolve a:b", "HOST:PORT:ADDR"),
            (
                "https://a.test --resolve a.test:443:::1@2 --repeat 2",
                "names repeat 2, but the last one is 1",
            ),
            (
                "https://a.test --resolve a.test:443:::1@1 --repeat 2 --warm",
                "leave one out",
            ),
            (
                "https://a.test --resume --requests 3",
                "cannot be used with",
            ),
            (
                "https://a.test --resume --crowd x --json",
                "cannot be used with",
            ),
            ("https://a.test --method a(b)", "not an HTTP method"),
            (
                "https://a.test --data @/nonexistent/file",
                "reading the request's body",
            ),
            (
                "https://a.test --cacert x --insecure",
                "cannot be used with",
            ),
            ("https://a.test --page --requests 3", "cannot be used with"),
            ("https://a.test --http 4", "invalid value"),
            ("https://a.test --connections 0", "invalid value"),
            ("", "required"),
        ];
        for (line, want) in cases {
            let error = settings(line).unwrap_err();
            assert!(error.contains(want), "{line}: {error}");
        }
    }

    #[test]
    fn defaults_follow_the_kind_of_measurement() {
        let plain = settings("https://a.test").unwrap();
        assert_eq!(plain.alt_svc, AltSvcMode::Follow);
        assert_eq!((plain.connections, plain.connections_http1), (1, 1));
        assert_eq!(plain.template.method, Method::GET);
        assert_eq!(plain.receive_window, 16 << 20);
        let page = settings("https://a.test --page").unwrap();
        assert_eq!((page.connections, page.connections_http1), (1, 6));
        let pinned = settings("https://a.test --http 2 --data x").unwrap();
        assert_eq!(pinned.alt_svc, AltSvcMode::Ignore);
        assert_eq!(pinned.template.method, Method::POST);
        let follows = |of: &Settings| of.template.headers.contains_key("sec-fetch-site");
        assert_eq!([&plain, &page, &pinned].map(follows), [true, true, false]);
    }

    #[test]
    fn given_fields_replace_the_defaults() {
        let settings = settings("https://a.test -H accept:text/html -H x:1 -H x:2").unwrap();
        let headers = &settings.template.headers;
        assert_eq!(
            headers.get_all(ACCEPT).iter().collect::<Vec<_>>(),
            ["text/html"]
        );
        assert_eq!(headers.get_all("x").iter().count(), 2);
        assert_eq!(headers[USER_AGENT], USER_AGENT_VALUE);
    }
}

//! `GET /v1/qlog`.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use hikyaku_core::client::key::Key;
use hikyaku_units::ByteSize;
use http::{HeaderValue, Response, StatusCode, header};

use super::{Admin, problem};
use crate::qlog::TraceRequest;
use hikyaku_content::Body;

/// Time of a trace, where none is asked for, and at most.
const DURATION: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(600)];
/// Its size, likewise.
const SIZE: [ByteSize; 2] = [ByteSize::from_mib(64), ByteSize::from_mib(1024)];
/// Most connections of a trace.
const MAX_CONNECTIONS: u32 = 1000;

/// Streams a trace of QUIC connections that begin from now on.
pub(super) fn trace(query: Option<&str>, admin: &Admin) -> Response<Body> {
    let request = match parse(query.unwrap_or_default()) {
        Ok(request) => request,
        Err(why) => return problem(StatusCode::BAD_REQUEST, &why),
    };
    match admin.traces.watch(&request, admin.shared.clock.now()) {
        Err(error) => problem(StatusCode::TOO_MANY_REQUESTS, &error.to_string()),
        Ok(trace) => {
            let mut response = Response::new(Body::boxed(trace));
            response.headers_mut().insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/qlog+json-seq"),
            );
            response
        }
    }
}

fn parse(query: &str) -> Result<TraceRequest, String> {
    let mut client = None;
    let mut request = TraceRequest {
        client: Key::address([0, 0, 0, 0].into()),
        connections: 1,
        duration: DURATION[0],
        size: SIZE[0],
    };
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let read = match &*key {
            "client" => read(&value).map(|key| client = Some(key)),
            "connections" => connections(&value).map(|count| request.connections = count),
            "duration" => duration(&value).map(|time| request.duration = time),
            "size" => size(&value).map(|size| request.size = size),
            _ => Err("expected `client`, `connections`, `duration` or `size`".to_owned()),
        };
        read.map_err(|why| format!("`{key}={value}`: {why}"))?;
    }
    request.client = client.ok_or("give `client`, an address or a prefix")?;
    Ok(request)
}

fn read<T: FromStr<Err: Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}

fn connections(value: &str) -> Result<u32, String> {
    let count = value.parse().ok();
    count
        .filter(|count| (1..=MAX_CONNECTIONS).contains(count))
        .ok_or_else(|| "expected a number from 1 to 1000".to_owned())
}

fn duration(value: &str) -> Result<Duration, String> {
    let time = hikyaku_units::duration::parse(value).map_err(|error| error.to_string())?;
    match time.is_zero() || time > DURATION[1] {
        true => Err("expected more than 0s, and 600s at most".to_owned()),
        false => Ok(time),
    }
}

fn size(value: &str) -> Result<ByteSize, String> {
    let size = read(value)?;
    match size > SIZE[1] {
        true => Err("expected 1GiB at most".to_owned()),
        false => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_or_refused() {
        let read = parse("client=192.0.2.0%2F24&connections=3&duration=5s&size=2MB").unwrap();
        assert_eq!(read.client.to_string(), "192.0.2.0/24");
        assert_eq!(read.connections, 3);
        assert_eq!(read.duration, Duration::from_secs(5));
        assert_eq!(read.size, ByteSize::from_bytes(2_000_000));
        let plain = parse("client=::ffff:192.0.2.7").unwrap();
        assert_eq!(plain.client.to_string(), "192.0.2.7");
        assert_eq!((plain.connections, plain.duration), (1, DURATION[0]));
        for (query, named) in [
            ("", "client"),
            ("client=somebody", "expected an IPv4 or IPv6 address"),
            ("client=10.0.0.0/8", "/24"),
            ("client=::1&connections=0", "connections=0"),
            ("client=::1&duration=11m", "600s"),
            ("client=::1&duration=0s", "duration=0s"),
            ("client=::1&size=2GiB", "1GiB"),
            ("client=::1&sizes=1", "sizes=1"),
        ] {
            let refused = parse(query).unwrap_err();
            assert!(refused.contains(named), "{query}: {refused}");
        }
    }
}

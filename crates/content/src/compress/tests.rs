use std::collections::BTreeMap;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;

use super::encoder::tests::decode;
use super::*;

type Fields<'a> = &'a [(&'a str, &'a str)];

fn config() -> CompressionConfig {
    CompressionConfig {
        encodings: vec![Coding::Zstd, Coding::Br, Coding::Gzip],
        ..CompressionConfig::default()
    }
}

fn compression() -> Arc<Compression> {
    Compression::new(&config()).unwrap().unwrap()
}

const TEXT: &str = "<p>hello</p>\n";

/// The content of most responses: above `min_size`.
fn text() -> Bytes {
    TEXT.repeat(200).into()
}

fn request(method: &str, fields: Fields<'_>) -> Request<()> {
    let mut request = Request::builder().method(method);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

fn response(status: u16, fields: Fields<'_>, body: Body) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(body).unwrap()
}

/// The response to a request as a plan leaves it, and its content.
fn applied(
    request: &Request<()>,
    mut response: Response<Body>,
) -> (BTreeMap<String, String>, Bytes) {
    let compression = compression();
    if let Some(plan) = compression.plan(request.method(), request.headers()) {
        plan.apply(&mut response);
    }
    let fields = response.headers().iter();
    let fields = fields.map(|(name, value)| {
        let value = value.to_str().unwrap().to_owned();
        (name.to_string(), value)
    });
    let fields = fields.collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let body = runtime.unwrap().block_on(response.into_body().collect());
    (fields, body.unwrap().to_bytes())
}

fn fields(want: Fields<'_>) -> BTreeMap<String, String> {
    let fields = want.iter();
    fields
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn the_client_chooses_among_the_codings() {
    let cases = [
        (None, None),
        (Some("gzip, deflate, br, zstd"), Some(Coding::Zstd)),
        (Some("gzip, br"), Some(Coding::Br)),
        (Some("br;q=0.5, gzip;q=0.9"), Some(Coding::Gzip)),
        (Some("*"), Some(Coding::Zstd)),
        (Some("*, zstd;q=0"), Some(Coding::Br)),
        (Some("identity, gzip;q=0.5"), None),
        (Some("identity;q=0, gzip;q=0.5"), Some(Coding::Gzip)),
        (Some("deflate"), None),
        (Some("gzip;q=0"), None),
    ];
    for (accepts, want) in cases {
        let accepts: Vec<_> = accepts.iter().map(|it| ("accept-encoding", *it)).collect();
        let html = response(200, &[("content-type", "text/html")], text().into());
        let (got, body) = applied(&request("GET", &accepts), html);
        let coding = got.get("content-encoding").map(String::as_str);
        assert_eq!(coding, want.map(Coding::name), "{accepts:?}");
        assert_eq!(got["vary"], "accept-encoding", "{accepts:?}");
        match want {
            Some(coding) => assert_eq!(decode(coding, &body), text(), "{accepts:?}"),
            None => assert_eq!(body, text(), "{accepts:?}"),
        }
    }
}

#[test]
fn fields_are_those_of_the_coded_content() {
    let before: Fields<'_> = &[
        ("content-type", "text/html"),
        ("content-length", "2600"),
        ("content-encoding", "identity"),
        ("accept-ranges", "bytes"),
        ("etag", "\"a\""),
        ("last-modified", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("content-digest", "x"),
        ("repr-digest", "x"),
        ("digest", "x"),
        ("content-md5", "x"),
        ("vary", "Origin"),
        ("x-other", "1"),
    ];
    let want = fields(&[
        ("content-type", "text/html"),
        ("content-encoding", "gzip"),
        ("etag", "W/\"a~coded-gzip\""),
        ("last-modified", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("vary", "Origin, accept-encoding"),
        ("x-other", "1"),
    ]);
    for (method, body) in [("GET", Body::from(text())), ("HEAD", Body::empty())] {
        let asked = request(method, &[("accept-encoding", "gzip")]);
        let (got, body) = applied(&asked, response(200, before, body));
        assert_eq!(got, want, "{method}");
        assert_eq!(body.is_empty(), method == "HEAD");
    }
}

#[test]
fn some_responses_stay_as_they_are() {
    let html = ("content-type", "text/html");
    // name, request's method and fields, status and fields; then whether there is a Vary
    type Case<'a> = (&'a str, &'a str, Fields<'a>, u16, Fields<'a>, bool);
    let cases: &[Case<'_>] = &[
        ("no type", "GET", &[], 200, &[], false),
        (
            "a type of images",
            "GET",
            &[],
            200,
            &[("content-type", "image/png")],
            false,
        ),
        (
            "events",
            "GET",
            &[],
            200,
            &[("content-type", "text/event-stream")],
            false,
        ),
        (
            "coded",
            "GET",
            &[],
            200,
            &[html, ("content-encoding", "br")],
            false,
        ),
        (
            "no-transform",
            "GET",
            &[],
            200,
            &[html, ("cache-control", "a, No-Transform")],
            false,
        ),
        (
            "asked not to",
            "GET",
            &[("cache-control", "no-transform")],
            200,
            &[html],
            false,
        ),
        (
            "too short",
            "GET",
            &[],
            200,
            &[html, ("content-length", "1023")],
            false,
        ),
        (
            "too short to HEAD",
            "HEAD",
            &[],
            200,
            &[html, ("content-length", "1")],
            false,
        ),
        (
            "a part",
            "GET",
            &[],
            206,
            &[html, ("content-range", "bytes 0-2599/9999")],
            false,
        ),
        (
            "a range that is none",
            "GET",
            &[],
            416,
            &[html, ("content-range", "bytes */9")],
            false,
        ),
        ("no content", "GET", &[], 204, &[html], false),
        ("reset content", "GET", &[], 205, &[html], false),
        ("another protocol", "GET", &[], 101, &[html], false),
        ("a tunnel", "CONNECT", &[], 200, &[html], false),
        (
            "no coding for it",
            "GET",
            &[("accept-encoding", "deflate")],
            200,
            &[html],
            true,
        ),
        (
            "all vary",
            "GET",
            &[("accept-encoding", "x")],
            200,
            &[html, ("vary", "*")],
            true,
        ),
    ];
    for (name, method, asked, status, before, varies) in cases {
        let gzip = [("accept-encoding", "gzip")];
        let names_coding = asked.iter().any(|(name, _)| *name == "accept-encoding");
        let asked = match names_coding {
            true => asked.to_vec(),
            false => [&gzip[..], asked].concat(),
        };
        let response = response(*status, before, text().into());
        let (got, body) = applied(&request(method, &asked), response);
        let mut want = fields(before);
        if *varies {
            want.entry("vary".to_owned())
                .or_insert("accept-encoding".to_owned());
        }
        assert_eq!(got, want, "{name}");
        assert_eq!(body, text(), "{name}");
    }
}

#[test]
fn errors_and_answers_to_posts_are_coded_too() {
    for (method, status) in [("POST", 200), ("GET", 404), ("GET", 502)] {
        let html = response(status, &[("content-type", "text/html")], text().into());
        let (got, body) = applied(&request(method, &[("accept-encoding", "br")]), html);
        assert_eq!(got["content-encoding"], "br", "{method} {status}");
        assert_eq!(decode(Coding::Br, &body), text(), "{method} {status}");
    }
}

#[test]
fn content_of_unknown_length_is_coded_but_for_none() {
    let asked = request("GET", &[("accept-encoding", "gzip")]);
    for (content, want) in [(Some("a"), Some("gzip")), (None, None)] {
        let frames =
            content.map(|text| Ok::<_, crate::BoxError>(http_body::Frame::data(text.into())));
        let body = match content {
            Some(_) => Body::boxed(http_body_util::StreamBody::new(futures_util::stream::iter(
                frames,
            ))),
            None => Body::empty(),
        };
        let (got, _) = applied(
            &asked,
            response(200, &[("content-type", "text/html")], body),
        );
        let coding = got.get("content-encoding").map(String::as_str);
        assert_eq!(coding, want, "{content:?}");
    }
}

#[test]
fn a_client_that_asks_by_a_coded_tag_gets_it_in_the_304() {
    let marked = "W/\"a~coded-gzip\"";
    // the client's condition, the upstream's tag; then the one of the 304
    let cases = [
        (marked, "\"a\"", marked, true),
        (marked, "W/\"a\"", marked, true),
        (marked, "\"b\"", "\"b\"", false),
        ("\"a\"", "\"a\"", "\"a\"", false),
    ];
    for (condition, etag, want, varies) in cases {
        let mut request = request("GET", &[("if-none-match", condition)]);
        let mut plan = compression()
            .plan(request.method(), request.headers())
            .unwrap();
        plan.adapt(request.headers_mut());
        let mut answer = response(304, &[("etag", etag)], Body::empty());
        plan.apply(&mut answer);
        assert_eq!(answer.headers()["etag"], want, "{condition} {etag}");
        let got = answer.headers().contains_key("vary");
        assert_eq!(got, varies, "{condition} {etag}");
    }
}

#[test]
fn without_memory_the_response_stays_plain() {
    let config = CompressionConfig {
        memory: hikyaku_units::ByteSize::from_bytes(0),
        ..config()
    };
    let compression = Compression::new(&config).unwrap().unwrap();
    let request = request("GET", &[("accept-encoding", "gzip")]);
    let plan = compression.plan(request.method(), request.headers());
    let mut html = response(
        200,
        &[("content-type", "text/html"), ("etag", "\"a\"")],
        text().into(),
    );
    plan.unwrap().apply(&mut html);
    assert_eq!(html.headers().get("content-encoding"), None);
    assert_eq!(html.headers()["etag"], "\"a\"");
    assert_eq!(html.headers()["vary"], "accept-encoding");
}

#[test]
fn settings_that_are_wrong_are_refused_also_while_it_is_off() {
    let level = |zstd, br, gzip| CompressionLevels { zstd, br, gzip };
    let cases = [
        (
            level(0, 5, 6),
            "`compression.level.zstd` is 0: choose 1 to 19",
        ),
        (level(20, 5, 6), "choose 1 to 19"),
        (
            level(3, 12, 6),
            "`compression.level.br` is 12: choose 2 to 11",
        ),
        (
            level(3, 5, 0),
            "`compression.level.gzip` is 0: choose 1 to 9",
        ),
    ];
    for (level, want) in cases {
        let config = CompressionConfig {
            level,
            ..CompressionConfig::default()
        };
        let error = Compression::new(&config).unwrap_err();
        assert!(error.contains(want), "{error}");
    }
    assert!(
        Compression::new(&CompressionConfig::default())
            .unwrap()
            .is_none()
    );
}

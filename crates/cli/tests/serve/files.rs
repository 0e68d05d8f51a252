//! Files, which every version answers alike.

use std::path::Path;

use hikyaku_testkit::fetch::{Http, Response, fetch, send};
use hikyaku_testkit::{Server, Site, get, has};
use sha2::{Digest, Sha256};

use crate::PAGE;

/// A row of [`every_version_answers_alike`].
struct Case {
    name: &'static str,
    method: &'static str,
    path: &'static str,
    headers: &'static [&'static str],
    status: u16,
    body: &'static [u8],
    /// Header fields of the response.
    want: &'static [(&'static str, Option<&'static str>)],
}

const STYLE: &[u8] = b"body { color: black }";

const GET: Case = Case {
    name: "",
    method: "GET",
    path: "/",
    headers: &[],
    status: 200,
    body: PAGE,
    want: &[],
};

const CASES: &[Case] = &[
    Case {
        name: "index",
        want: &[
            ("content-type", Some("text/html")),
            ("content-length", Some("35")),
            ("accept-ranges", Some("bytes")),
            ("server", Some("hikyaku")),
        ],
        ..GET
    },
    Case {
        name: "HEAD",
        method: "HEAD",
        body: b"",
        want: &[("content-length", Some("35"))],
        ..GET
    },
    Case {
        name: "a range",
        headers: &["range: bytes=2-8"],
        status: 206,
        body: b"doctype",
        want: &[("content-range", Some("bytes 2-8/35"))],
        ..GET
    },
    Case {
        name: "the last bytes",
        headers: &["range: bytes=-8"],
        status: 206,
        body: b"</title>",
        want: &[("content-range", Some("bytes 27-34/35"))],
        ..GET
    },
    Case {
        name: "a range beyond the end",
        headers: &["range: bytes=35-"],
        status: 416,
        body: b"416 Range Not Satisfiable\n",
        want: &[("content-range", Some("bytes */35"))],
        ..GET
    },
    Case {
        name: "unchanged since",
        headers: &["if-modified-since: Sun, 01 Jan 2090 00:00:00 GMT"],
        status: 304,
        body: b"",
        want: &[("content-type", None)],
        ..GET
    },
    Case {
        name: "any entity tag",
        headers: &["if-none-match: *"],
        status: 304,
        body: b"",
        ..GET
    },
    Case {
        name: "another entity tag",
        headers: &["if-match: \"other\""],
        status: 412,
        body: b"412 Precondition Failed\n",
        ..GET
    },
    Case {
        name: "not found",
        path: "/nowhere",
        status: 404,
        body: b"nothing here",
        want: &[("content-type", Some("text/html"))],
        ..GET
    },
    Case {
        name: "directory",
        path: "/dir?a=1",
        status: 301,
        body: b"301 Moved Permanently\n",
        want: &[("location", Some("./dir/?a=1"))],
        ..GET
    },
    Case {
        name: "path traversal",
        path: "/%2e%2e/%2e%2e/etc/passwd",
        status: 400,
        body: b"400 Bad Request\n",
        ..GET
    },
    Case {
        name: "precompressed",
        path: "/style.css",
        headers: &["accept-encoding: gzip"],
        body: b"as gzip",
        want: &[
            ("content-encoding", Some("gzip")),
            ("content-type", Some("text/css")),
            ("vary", Some("accept-encoding")),
        ],
        ..GET
    },
    Case {
        name: "precompressed, by the server's preference",
        path: "/style.css",
        headers: &["accept-encoding: gzip, br"],
        body: b"as brotli",
        want: &[("content-encoding", Some("br"))],
        ..GET
    },
    Case {
        name: "not compressed",
        path: "/style.css",
        body: STYLE,
        want: &[
            ("content-encoding", None),
            ("vary", Some("accept-encoding")),
        ],
        ..GET
    },
    Case {
        name: "method",
        method: "DELETE",
        status: 405,
        body: b"405 Method Not Allowed\n",
        want: &[("allow", Some("GET, HEAD, OPTIONS"))],
        ..GET
    },
];

#[test]
fn every_version_answers_alike() {
    if !has("every_version_answers_alike", "curl") {
        return;
    }
    let site = Site::new(&[
        ("index.html", PAGE),
        ("404.html", b"nothing here"),
        ("dir/index.html", PAGE),
        ("style.css", STYLE),
        ("style.css.gz", b"as gzip"),
        ("style.css.br", b"as brotli"),
    ]);
    let server = Server::start(&[site.path(), "--set", "files.not_found=404.html"]);
    for case in CASES {
        let [h1, h2, h3] = Http::ALL.map(|http| {
            let got = send(http, &server, case.method, case.path, case.headers, b"");
            check(case, http, &got);
            got
        });
        for other in [h2, h3] {
            assert_eq!(comparable(&h1), comparable(&other), "{}", case.name);
        }
    }
}

fn check(case: &Case, http: Http, got: &Response) {
    let name = format!("{} over {http:?}: {got:?}", case.name);
    assert_eq!(got.status, case.status, "{name}");
    assert_eq!(got.body, case.body, "{name}");
    for (header, want) in case.want {
        let value = got.header(header).map(str::to_ascii_lowercase);
        let want = want.map(str::to_ascii_lowercase);
        assert_eq!(value, want, "{header} of {name}");
    }
    assert!(got.headers.contains_key("date"), "{name}");
}

/// Headers that must be equal in every version; `Content-Length` of a file is in [`CASES`].
fn comparable(response: &Response) -> Vec<(String, String)> {
    let mut headers: Vec<_> = response
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .filter(|(name, _)| {
            !matches!(
                name.as_str(),
                "date" | "alt-svc" | "connection" | "content-length"
            )
        })
        .collect();
    headers.sort();
    headers
}

#[test]
fn validators_of_one_version_hold_in_the_others() {
    if !has("validators_of_one_version_hold_in_the_others", "curl") {
        return;
    }
    let site = Site::new(&[("index.html", PAGE)]);
    let server = Server::start(&[site.path()]);
    for http in Http::ALL {
        let first = fetch(http, &server, "/", &[]);
        let tag = format!("if-none-match: {}", first.header("etag").unwrap());
        let since = first.header("last-modified").unwrap();
        let since = format!("if-modified-since: {since}");
        let resumed = format!("if-range: {}", first.header("etag").unwrap());
        for other in Http::ALL {
            let name = format!("{http:?}, then {other:?}");
            assert_eq!(fetch(other, &server, "/", &[&tag]).status, 304, "{name}");
            assert_eq!(fetch(other, &server, "/", &[&since]).status, 304, "{name}");
            let part = fetch(other, &server, "/", &[&resumed, "range: bytes=0-1"]);
            assert_eq!((part.status, &part.body[..]), (206, &b"<!"[..]), "{name}");
        }
        let other = &["if-range: \"other\"", "range: bytes=0-1"];
        assert_eq!(fetch(http, &server, "/", other).status, 200, "{http:?}");
    }
}

#[test]
fn a_large_file_arrives_whole_over_every_version() {
    if !has("a_large_file_arrives_whole_over_every_version", "curl") {
        return;
    }
    let site = Site::with_big_file(50_000_000);
    let server = Server::start(&[site.path()]);
    let want = hash(&Path::new(site.path()).join("big.bin"));
    for http in [Http::H1, Http::H2] {
        let got = fetch(http, &server, "/big.bin", &[]);
        assert_eq!(Sha256::digest(&got.body).to_vec(), want, "curl, {http:?}");
    }
    for http in Http::ALL {
        let got = server.dir().join(http.name());
        let records = get(&[
            "--http",
            http.option(),
            "-o",
            got.to_str().unwrap(),
            &server.url("/big.bin"),
        ]);
        assert_eq!(records[0]["status"], 200, "{records:?}");
        assert_eq!(records[0]["http"], http.option(), "{records:?}");
        assert_eq!(hash(&got), want, "hikyaku get, {http:?}");
    }
}

fn hash(path: &Path) -> Vec<u8> {
    Sha256::digest(std::fs::read(path).unwrap()).to_vec()
}

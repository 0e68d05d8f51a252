//! The file server against a real directory, and through hyper on a real socket.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hikyaku_content::files::{CacheRule, Coding, Symlinks};
use hikyaku_content::{
    Body, Content, ErrorReason, Files, FilesConfig, Peer, ReadError, RequestBody, omit_content,
};
use hikyaku_units::ByteSize;
use hikyaku_units::arm::Version;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt, Empty};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A root directory and the content served from it.
struct Server {
    outer: TempDir,
    content: Arc<Content>,
}

impl Server {
    fn new(config: &FilesConfig, fill: impl FnOnce(&Path)) -> Self {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir(&root).unwrap();
        fill(&root);
        let files = Files::open(&root, config).unwrap();
        let content = Arc::new(Content::Files(files));
        Self { outer, content }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.outer.path().join("root").join(name)
    }

    async fn send(&self, method: Method, uri: &str, headers: &[(&str, &str)]) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        respond(&self.content, request.body(no_body()).unwrap()).await
    }

    async fn get(&self, uri: &str, headers: &[(&str, &str)]) -> Answer {
        Answer::of(self.send(Method::GET, uri, headers).await).await
    }

    /// Serves on loopback until the test's runtime ends.
    async fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let content = Arc::clone(&self.content);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let content = Arc::clone(&content);
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let content = Arc::clone(&content);
                    async move {
                        let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
                        Ok::<_, std::convert::Infallible>(respond(&content, request).await)
                    }
                });
                tokio::spawn(async move {
                    let builder =
                        hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = builder
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        address
    }
}

/// Responds as the server does: content that must not be sent is left out.
async fn respond(content: &Content, request: Request<RequestBody>) -> Response<Body> {
    let method = request.method().clone();
    let mut response = content.respond(request, &peer()).await;
    omit_content(&method, &mut response);
    response
}

/// A response that was received to its end.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
    reason: Option<String>,
}

impl Answer {
    async fn of(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let announced = body.size_hint().exact();
        let body = body.collect().await.unwrap().to_bytes();
        assert_eq!(announced, Some(body.len() as u64), "length as announced");
        Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            reason: parts
                .extensions
                .get::<ErrorReason>()
                .map(ToString::to_string),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

fn no_body() -> RequestBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

fn peer() -> Peer {
    Peer {
        remote: SocketAddr::from(([192, 0, 2, 1], 1234)),
        local: SocketAddr::from(([192, 0, 2, 2], 443)),
        version: Version::H2,
        server_name: None,
    }
}

fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Sets the file's modification time to a long time ago.
fn set_modified(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).unwrap().set_modified(time).unwrap();
}

#[tokio::test]
async fn every_path_has_its_status() {
    let server = Server::new(&FilesConfig::default(), |root| {
        write(&root.join("index.html"), "home");
        write(&root.join("a b.txt"), "space");
        write(&root.join("dir/index.html"), "dir");
        write(&root.join("dir/file.txt"), "file");
        write(&root.join("empty/.keep"), "");
        write(&root.join(".well-known/acme"), "acme");
        write(&root.join(".git/config"), "secret");
        write(&root.join("%61"), "percent");
        write(&root.join(OsStr::from_bytes(b"caf\xe9.txt")), "latin");
        write(&root.parent().unwrap().join("secret"), "secret");
        symlink("../secret", root.join("out")).unwrap();
        symlink("..", root.join("outdir")).unwrap();
        symlink(root.join("index.html"), root.join("absolute")).unwrap();
        symlink("dir/file.txt", root.join("in")).unwrap();
        symlink("dir", root.join("indir")).unwrap();
        symlink("/proc/self/environ", root.join("magic")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
    });
    let too_long = format!("/{}", "a".repeat(300));
    let far_too_long = format!("/{}", "a/".repeat(3000));
    let cases: &[(&str, u16, &str)] = &[
        ("/", 200, "home"),
        ("/index.html", 200, "home"),
        ("/index.html?x=/../..", 200, "home"),
        ("/a%20b.txt", 200, "space"),
        ("/%2561", 200, "percent"),
        ("/%61%20b.txt", 200, "space"),
        ("/caf%E9.txt", 200, "latin"),
        ("/caf%C3%A9.txt", 404, ""),
        ("/dir/", 200, "dir"),
        ("//dir//", 200, "dir"),
        ("/dir/file.txt", 200, "file"),
        ("/dir", 301, ""),
        ("/dir/file.txt/", 404, ""),
        ("/dir/file.txt/x", 404, ""),
        ("/empty/", 404, ""),
        ("/absent", 404, ""),
        ("/absent/", 404, ""),
        ("/.well-known/acme", 200, "acme"),
        ("/.git/config", 404, ""),
        ("/%2egit/config", 404, ""),
        ("/empty/.keep", 404, ""),
        ("/in", 200, "file"),
        ("/indir/file.txt", 200, "file"),
        ("/indir", 301, ""),
        ("/out", 404, ""),
        ("/outdir/secret", 404, ""),
        ("/outdir/", 404, ""),
        ("/absolute", 404, ""),
        ("/magic", 404, ""),
        ("/pipe", 404, ""),
        ("/../secret", 400, ""),
        ("/dir/../../secret", 400, ""),
        ("/%2e%2e/secret", 400, ""),
        ("/%2E./secret", 400, ""),
        ("/.%2e/secret", 400, ""),
        ("/..%2fsecret", 404, ""),
        ("/dir%2f..%2f..%2fsecret", 400, ""),
        ("/%252e%252e/secret", 404, ""),
        ("/%252e%252e%252fsecret", 404, ""),
        ("/..%5csecret", 404, ""),
        ("/dir/..;/secret", 404, ""),
        ("/index.html%00", 400, ""),
        ("/index.html%00.txt", 400, ""),
        ("/%", 400, ""),
        ("/%f", 400, ""),
        ("/%gg", 400, ""),
        (&too_long, 404, ""),
        (&far_too_long, 414, ""),
    ];
    for (path, status, body) in cases {
        for round in ["cold", "from the cache"] {
            let answer = server.get(path, &[]).await;
            assert_eq!(answer.status, *status, "{path} {round}");
            if *status == 200 {
                assert_eq!(answer.text(), *body, "{path} {round}");
            }
            assert!(!answer.text().contains("secret"), "{path} {round}");
        }
    }
}

#[tokio::test]
async fn settings_change_the_defaults() {
    let fill = |root: &Path| {
        write(&root.join(".git/config"), "config");
        write(&root.join("real"), "real");
        symlink("real", root.join("link")).unwrap();
    };
    let hidden = Server::new(
        &FilesConfig {
            hidden: true,
            ..FilesConfig::default()
        },
        fill,
    );
    assert_eq!(hidden.get("/.git/config", &[]).await.text(), "config");
    assert_eq!(hidden.get("/.git/../real", &[]).await.status, 400);
    assert_eq!(hidden.get("/link", &[]).await.text(), "real");
    let symlinks = Symlinks::Never;
    let strict = Server::new(
        &FilesConfig {
            symlinks,
            ..FilesConfig::default()
        },
        fill,
    );
    let answer = strict.get("/link", &[]).await;
    assert_eq!(answer.status, 404);
    let reason = answer.reason.unwrap();
    assert!(reason.starts_with("opening `link`: "), "{reason}");
}

#[tokio::test]
async fn directories_redirect_within_this_host() {
    let server = Server::new(&FilesConfig::default(), |root| {
        write(&root.join("evil.example/index.html"), "x");
        write(&root.join("a b/c/index.html"), "x");
        write(&root.join("x\\evil/index.html"), "x");
    });
    let cases = [
        ("/evil.example", "/evil.example/"),
        ("//evil.example", "/evil.example/"),
        ("///evil.example?a=//b", "/evil.example/?a=//b"),
        ("/a%20b/c?q=%2F", "/a%20b/c/?q=%2F"),
        ("/a%20b//c", "/a%20b/c/"),
        ("/x%5Cevil", "/x%5Cevil/"),
    ];
    for (path, location) in cases {
        let answer = server.get(path, &[]).await;
        assert_eq!(answer.status, 301, "{path}");
        assert_eq!(answer.header("location"), Some(location), "{path}");
    }
}

#[tokio::test]
async fn methods_other_than_get_and_head_are_refused() {
    let server = Server::new(&FilesConfig::default(), |root| {
        write(&root.join("a"), "body");
    });
    for (method, status) in [
        ("POST", 405),
        ("PUT", 405),
        ("DELETE", 405),
        ("OPTIONS", 204),
    ] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let answer = Answer::of(server.send(method.clone(), "/a", &[]).await).await;
        assert_eq!(answer.status, status, "{method}");
        assert_eq!(
            answer.header("allow"),
            Some("GET, HEAD, OPTIONS"),
            "{method}"
        );
    }
    for path in ["/a", "/absent", "/%"] {
        let get = server.get(path, &[]).await;
        let head = Answer::of(
            server
                .send(Method::HEAD, path, &[("range", "bytes=0-1")])
                .await,
        )
        .await;
        assert_eq!(head.status, get.status, "{path}");
        assert_eq!(
            head.header("content-length"),
            Some(&*get.body.len().to_string()),
            "{path}"
        );
        assert!(head.body.is_empty(), "{path}");
    }
}

#[tokio::test]
async fn ranges_are_cut_out_of_small_and_large_files() {
    let content: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    for (name, small_body) in [("kept in memory", 1 << 20), ("read", 0)] {
        let small_body = ByteSize::from_bytes(small_body);
        let config = FilesConfig {
            small_body,
            ..FilesConfig::default()
        };
        let server = Server::new(&config, |root| write(&root.join("f.bin"), &content));
        let cases: &[(&str, Option<(usize, usize)>)] = &[
            ("bytes=0-0", Some((0, 1))),
            ("bytes=0-499", Some((0, 500))),
            ("bytes=70000-140000", Some((70_000, 140_001))),
            ("bytes=199999-", Some((199_999, 200_000))),
            ("bytes=-5", Some((199_995, 200_000))),
            ("bytes=-900000", Some((0, 200_000))),
            ("bytes=100-18446744073709551615", Some((100, 200_000))),
            ("bytes=200000-", None),
            ("bytes=-0", None),
        ];
        for (range, want) in cases {
            let answer = server.get("/f.bin", &[("range", range)]).await;
            let content_range = answer.header("content-range").unwrap();
            match want {
                None => {
                    assert_eq!(
                        (answer.status, content_range),
                        (416, "bytes */200000"),
                        "{name}: {range}"
                    );
                }
                Some((start, end)) => {
                    assert_eq!(answer.status, 206, "{name}: {range}");
                    assert_eq!(
                        content_range,
                        format!("bytes {start}-{}/200000", end - 1),
                        "{name}"
                    );
                    assert_eq!(answer.body, content[*start..*end], "{name}: {range}");
                    let len = (end - start).to_string();
                    assert_eq!(
                        answer.header("content-length"),
                        Some(&*len),
                        "{name}: {range}"
                    );
                }
            }
        }
        for range in ["bytes=5-1", "lines=0-1", "bytes=0-,0-", "bytes=x"] {
            let answer = server.get("/f.bin", &[("range", range)]).await;
            assert_eq!(
                (answer.status, answer.body.len()),
                (200, 200_000),
                "{name}: {range}"
            );
            assert_eq!(
                answer.header("accept-ranges"),
                Some("bytes"),
                "{name}: {range}"
            );
        }
    }
}

#[tokio::test]
async fn several_ranges_come_as_multipart() {
    let content: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    for small_body in [1 << 20, 0] {
        let small_body = ByteSize::from_bytes(small_body);
        let config = FilesConfig {
            small_body,
            ..FilesConfig::default()
        };
        let server = Server::new(&config, |root| write(&root.join("f.png"), &content));
        let answer = server
            .get("/f.png", &[("range", "bytes=0-9,100000-170000,-3")])
            .await;
        assert_eq!(answer.status, 206);
        let content_type = answer.header("content-type").unwrap();
        let boundary = content_type
            .strip_prefix("multipart/byteranges; boundary=")
            .unwrap();
        let mut want = Vec::new();
        for part in [0..10, 100_000..170_001, 199_997..200_000] {
            let (first, last) = (part.start, part.end - 1);
            want.extend_from_slice(
                format!(
                    "\r\n--{boundary}\r\ncontent-type: image/png\r\n\
                     content-range: bytes {first}-{last}/200000\r\n\r\n"
                )
                .as_bytes(),
            );
            want.extend_from_slice(&content[part]);
        }
        want.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert!(answer.body == want, "parts as asked for");
        assert_eq!(
            answer.header("content-length"),
            Some(&*want.len().to_string())
        );
    }
}

#[tokio::test]
async fn conditions_follow_rfc_9110() {
    const MODIFIED: u64 = 1_000_000_000;
    let server = Server::new(&FilesConfig::default(), |root| {
        write(&root.join("a.txt"), "0123456789");
        set_modified(&root.join("a.txt"), MODIFIED);
    });
    let date = |offset: i64| {
        let seconds = MODIFIED.checked_add_signed(offset).unwrap();
        httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    };
    let (before, same, after) = (date(-1), date(0), date(1));
    // A file whose status has just changed has no strong date.
    tokio::time::sleep(Duration::from_millis(3100)).await;
    let plain = server.get("/a.txt", &[]).await;
    let etag = plain.header("etag").unwrap().to_owned();
    let weak = format!("W/{etag}");
    let list = format!("\"x\" , {etag}");
    assert!(etag.starts_with('"'), "strong: {etag}");
    assert_eq!(plain.header("last-modified"), Some(&*same));

    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], u16);
    let cases: &[Case<'_>] = &[
        ("none match: other", &[("if-none-match", "\"x\"")], 200),
        ("none match: same", &[("if-none-match", &etag)], 304),
        ("none match: weak", &[("if-none-match", &weak)], 304),
        ("none match: list", &[("if-none-match", &list)], 304),
        (
            "none match: two fields",
            &[("if-none-match", "\"x\""), ("if-none-match", &etag)],
            304,
        ),
        ("none match: any", &[("if-none-match", "*")], 304),
        ("none match: malformed", &[("if-none-match", "x")], 200),
        (
            "none match goes before date",
            &[("if-none-match", "\"x\""), ("if-modified-since", &after)],
            200,
        ),
        (
            "modified since: before",
            &[("if-modified-since", &before)],
            200,
        ),
        ("modified since: same", &[("if-modified-since", &same)], 304),
        (
            "modified since: after",
            &[("if-modified-since", &after)],
            304,
        ),
        (
            "modified since: no date",
            &[("if-modified-since", "yesterday")],
            200,
        ),
        ("match: same", &[("if-match", &etag)], 200),
        ("match: list", &[("if-match", &list)], 200),
        ("match: any", &[("if-match", "*")], 200),
        ("match: other", &[("if-match", "\"x\"")], 412),
        ("match: weak", &[("if-match", &weak)], 412),
        ("match: malformed", &[("if-match", "x")], 412),
        (
            "match goes before date",
            &[("if-match", &etag), ("if-unmodified-since", &before)],
            200,
        ),
        (
            "match, then none match",
            &[("if-match", &etag), ("if-none-match", &etag)],
            304,
        ),
        (
            "unmodified since: before",
            &[("if-unmodified-since", &before)],
            412,
        ),
        (
            "unmodified since: same",
            &[("if-unmodified-since", &same)],
            200,
        ),
        (
            "unmodified since: no date",
            &[("if-unmodified-since", "x")],
            200,
        ),
        ("range", &[("range", "bytes=0-1")], 206),
        (
            "range if same",
            &[("range", "bytes=0-1"), ("if-range", &etag)],
            206,
        ),
        (
            "range if other",
            &[("range", "bytes=0-1"), ("if-range", "\"x\"")],
            200,
        ),
        (
            "range if weak",
            &[("range", "bytes=0-1"), ("if-range", &weak)],
            200,
        ),
        (
            "range if date",
            &[("range", "bytes=0-1"), ("if-range", &same)],
            206,
        ),
        (
            "range if later date",
            &[("range", "bytes=0-1"), ("if-range", &after)],
            200,
        ),
        (
            "range if malformed",
            &[("range", "bytes=0-1"), ("if-range", "x")],
            200,
        ),
        (
            "range, not modified",
            &[("range", "bytes=0-1"), ("if-none-match", &etag)],
            304,
        ),
        (
            "range, failed",
            &[("range", "bytes=99-"), ("if-match", "\"x\"")],
            412,
        ),
        ("if-range alone", &[("if-range", &etag)], 200),
    ];
    for (name, headers, status) in cases {
        let answer = server.get("/a.txt", headers).await;
        assert_eq!(answer.status, *status, "{name}");
        if matches!(status, 200 | 206 | 304) {
            assert_eq!(answer.header("etag"), Some(&*etag), "{name}");
            assert_eq!(answer.header("last-modified"), Some(&*same), "{name}");
        }
        let len = match status {
            200 => 10,
            206 => 2,
            304 => 0,
            _ => continue,
        };
        assert_eq!(answer.body.len(), len, "{name}");
    }
}

#[tokio::test]
async fn the_smallest_coding_that_the_client_takes_is_sent() {
    let cache_control = vec![CacheRule {
        pattern: "*.css".to_owned(),
        value: "max-age=9".to_owned(),
    }];
    let config = FilesConfig {
        cache_control,
        ..FilesConfig::default()
    };
    let server = Server::new(&config, |root| {
        for (name, content) in [
            ("a.css", "plain"),
            ("a.css.br", "brotli"),
            ("a.css.gz", "gzip!!"),
            ("b.css", "alone"),
            ("index.html", "home"),
            ("index.html.zst", "zstd"),
            ("c.css", "c"),
        ] {
            write(&root.join(name), content);
        }
        fs::create_dir(root.join("c.css.br")).unwrap();
        symlink("../secret", root.join("c.css.gz")).unwrap();
        write(&root.parent().unwrap().join("secret"), "secret");
    });
    // path, accept-encoding, body, content-encoding, vary
    type Case<'a> = (&'a str, Option<&'a str>, &'a str, Option<&'a str>, bool);
    let cases: &[Case<'_>] = &[
        ("/a.css", None, "plain", None, true),
        (
            "/a.css",
            Some("gzip, deflate, br, zstd"),
            "brotli",
            Some("br"),
            true,
        ),
        ("/a.css", Some("gzip"), "gzip!!", Some("gzip"), true),
        ("/a.css", Some("zstd"), "plain", None, true),
        ("/a.css", Some("br;q=0, gzip;q=0"), "plain", None, true),
        ("/a.css", Some("br;q=0.1, identity"), "plain", None, true),
        (
            "/a.css",
            Some("identity;q=0, *"),
            "brotli",
            Some("br"),
            true,
        ),
        ("/b.css", Some("br"), "alone", None, false),
        ("/c.css", Some("br, gzip"), "c", None, false),
        ("/", Some("zstd"), "zstd", Some("zstd"), true),
        ("/a.css.br", Some("gzip"), "brotli", None, false),
    ];
    let mut etags = BTreeMap::new();
    for (path, accept, body, coding, varies) in cases {
        let accept: Vec<_> = accept
            .iter()
            .map(|accept| ("accept-encoding", *accept))
            .collect();
        let answer = server.get(path, &accept).await;
        let name = format!("{path} {accept:?}");
        assert_eq!((answer.status, answer.text()), (200, *body), "{name}");
        assert_eq!(answer.header("content-encoding"), *coding, "{name}");
        assert_eq!(
            answer.header("vary"),
            varies.then_some("accept-encoding"),
            "{name}"
        );
        if *path == "/a.css" {
            assert_eq!(answer.header("content-type"), Some("text/css"), "{name}");
            assert_eq!(answer.header("cache-control"), Some("max-age=9"), "{name}");
            let etag = answer.header("etag").unwrap().to_owned();
            let before = etags.insert(*coding, etag.clone());
            assert!(before.is_none_or(|before| before == etag), "{name}");
        }
    }
    assert_eq!(
        etags
            .values()
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        3
    );

    let etag = &etags[&Some("br")];
    let headers = [("accept-encoding", "br"), ("if-none-match", etag)];
    let answer = server.get("/a.css", &headers).await;
    assert_eq!(
        (answer.status, answer.header("vary")),
        (304, Some("accept-encoding"))
    );
    assert_eq!(answer.header("cache-control"), Some("max-age=9"));
    assert_eq!(answer.header("content-encoding"), None);

    let answer = server
        .get(
            "/a.css",
            &[("accept-encoding", "br"), ("range", "bytes=1-2")],
        )
        .await;
    assert_eq!((answer.status, answer.text()), (206, "ro"));
    assert_eq!(answer.header("content-encoding"), Some("br"));
}

#[tokio::test]
async fn precompression_can_be_ordered_and_turned_off() {
    let fill = |root: &Path| {
        write(&root.join("a"), "plain");
        write(&root.join("a.br"), "br");
        write(&root.join("a.gz"), "gz");
    };
    for (precompressed, want) in [(vec![], "plain"), (vec![Coding::Gzip, Coding::Br], "gz")] {
        let server = Server::new(
            &FilesConfig {
                precompressed,
                ..FilesConfig::default()
            },
            fill,
        );
        assert_eq!(
            server
                .get("/a", &[("accept-encoding", "br, gzip")])
                .await
                .text(),
            want
        );
    }
}

#[tokio::test]
async fn a_custom_page_is_sent_for_missing_files() {
    let not_found = Some("errors/100% 404.html".to_owned());
    let server = Server::new(
        &FilesConfig {
            not_found,
            ..FilesConfig::default()
        },
        |root| {
            write(&root.join("errors/100% 404.html"), "<h1>not here</h1>");
        },
    );
    for headers in [
        &[][..],
        &[("range", "bytes=0-1")],
        &[("if-none-match", "*")],
    ] {
        let answer = server.get("/absent", headers).await;
        assert_eq!((answer.status, answer.text()), (404, "<h1>not here</h1>"));
        assert_eq!(answer.header("content-type"), Some("text/html"));
        assert_eq!(answer.header("etag"), None);
        assert_eq!(answer.header("accept-ranges"), None);
    }
    assert_eq!(server.get("/%", &[]).await.text(), "400 Bad Request\n");
    fs::remove_file(server.path("errors/100% 404.html")).unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(server.get("/absent", &[]).await.text(), "404 Not Found\n");
}

#[tokio::test]
async fn a_listing_shows_served_entries_alone() {
    let config = FilesConfig {
        listing: true,
        ..FilesConfig::default()
    };
    let server = Server::new(&config, |root| {
        write(&root.join("d/<script>alert('x')</script>&\"/x"), "");
        write(&root.join("d/z dir/x"), "");
        write(&root.join("d/b.txt"), "12345");
        write(&root.join("d/a#?.txt"), "");
        write(&root.join("d/javascript:alert(1)"), "");
        write(&root.join("d/.hidden"), "");
        write(&root.join("d").join(OsStr::from_bytes(b"caf\xe9")), "");
        symlink("b.txt", root.join("d/link")).unwrap();
        symlink("/etc/passwd", root.join("d/out")).unwrap();
        symlink("absent", root.join("d/broken")).unwrap();
        set_modified(&root.join("d/b.txt"), 0);
        write(&root.join("with/index.html"), "index");
    });
    let answer = server.get("/d/", &[]).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let page = answer.text();
    let hrefs: Vec<_> = page
        .split("href=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(
        hrefs,
        [
            "../",
            "./%3Cscript%3Ealert%28%27x%27%29%3C/",
            "./z%20dir/",
            "./a%23%3F.txt",
            "./b.txt",
            "./caf%E9",
            "./javascript%3Aalert%281%29",
            "./link",
        ]
    );
    assert!(!page.contains("<script"), "{page}");
    assert!(
        page.contains("<td>5<td>Thu, 01 Jan 1970 00:00:00 GMT"),
        "{page}"
    );
    assert!(page.contains("<title>/d/</title>"), "{page}");
    assert!(
        !page.contains("hidden") && !page.contains("passwd"),
        "{page}"
    );
    for href in &hrefs[1..] {
        let status = server.get(&format!("/d/{}", &href[2..]), &[]).await.status;
        assert_eq!(status, 200, "{href}");
    }
    assert_eq!(server.get("/with/", &[]).await.text(), "index");
    let root = server.get("/", &[]).await;
    assert!(!root.text().contains("../"), "{}", root.text());
    assert!(root.text().contains("<title>/</title>"), "{}", root.text());
    let head = Answer::of(server.send(Method::HEAD, "/d/", &[]).await).await;
    assert_eq!(
        head.header("content-length"),
        Some(&*answer.body.len().to_string())
    );
}

#[tokio::test]
async fn changes_are_seen_after_the_revalidation_time() {
    let fill = |root: &Path| {
        write(&root.join("a"), "one");
        write(&root.join("same"), "aaa");
    };
    let at_once = FilesConfig {
        revalidate: Duration::ZERO,
        ..FilesConfig::default()
    };
    let server = Server::new(&at_once, fill);
    let first = server.get("/a", &[]).await;
    assert_eq!(first.text(), "one");
    // The changes have the same length, and perhaps the same tick of the file system's clock.
    for round in 0..50 {
        let content = format!("{round:03}");
        write(&server.path("same"), &content);
        assert_eq!(server.get("/same", &[]).await.text(), content);
    }
    write(&server.path("a"), "two and more");
    let second = server.get("/a", &[]).await;
    assert_eq!(second.text(), "two and more");
    assert_ne!(first.header("etag"), second.header("etag"));
    write(&server.path("a.gz"), "gz");
    let coded = server.get("/a", &[("accept-encoding", "gzip")]).await;
    assert_eq!(
        (coded.text(), coded.header("vary")),
        ("gz", Some("accept-encoding"))
    );
    fs::remove_file(server.path("a.gz")).unwrap();
    assert_eq!(server.get("/a", &[]).await.header("vary"), None);
    fs::remove_file(server.path("a")).unwrap();
    assert_eq!(server.get("/a", &[]).await.status, 404);
    fs::create_dir(server.path("a")).unwrap();
    assert_eq!(server.get("/a", &[]).await.status, 301);

    let never = FilesConfig {
        revalidate: Duration::from_secs(3600),
        ..FilesConfig::default()
    };
    let server = Server::new(&never, fill);
    assert_eq!(server.get("/a", &[]).await.text(), "one");
    write(&server.path("a"), "two");
    assert_eq!(server.get("/a", &[]).await.text(), "one");

    let no_cache = FilesConfig {
        cache_entries: 0,
        ..FilesConfig::default()
    };
    let server = Server::new(&no_cache, fill);
    assert_eq!(server.get("/a", &[]).await.text(), "one");
    write(&server.path("a"), "two");
    assert_eq!(server.get("/a", &[]).await.text(), "two");
}

#[tokio::test]
async fn a_file_cut_short_while_it_is_sent_ends_in_an_error() {
    let server = Server::new(&FilesConfig::default(), |root| {
        write(&root.join("big"), vec![1; 1 << 20]);
    });
    let mut body = server.send(Method::GET, "/big", &[]).await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    File::options()
        .write(true)
        .open(server.path("big"))
        .unwrap()
        .set_len(300_000)
        .unwrap();
    let mut received = first.len();
    let error = loop {
        match body.frame().await.expect("an error before the end") {
            Ok(frame) => received += frame.into_data().unwrap().len(),
            Err(error) => break error,
        }
    };
    assert_eq!(received, 300_000);
    let missing = (1 << 20) - 300_000;
    let error = error.downcast::<ReadError>().unwrap();
    assert!(
        matches!(*error, ReadError::Truncated { missing: got } if got == missing),
        "{error}"
    );
    assert!(body.frame().await.is_none(), "nothing after the error");
}

#[tokio::test]
async fn a_file_that_grows_while_it_is_sent_keeps_its_announced_length() {
    let server = Server::new(&FilesConfig::default(), |root| {
        write(&root.join("log"), vec![b'a'; 200_000]);
    });
    let response = server.send(Method::GET, "/log", &[]).await;
    let mut file = File::options()
        .append(true)
        .open(server.path("log"))
        .unwrap();
    std::io::Write::write_all(&mut file, &vec![b'b'; 200_000]).unwrap();
    let answer = Answer::of(response).await;
    assert_eq!(answer.body.len(), 200_000);
    assert!(answer.body.iter().all(|&byte| byte == b'a'));
}

#[tokio::test]
async fn a_large_file_is_streamed_in_little_memory() {
    const LEN: u64 = 300 << 20;
    let server = Server::new(&FilesConfig::default(), |root| {
        File::create(root.join("sparse"))
            .unwrap()
            .set_len(LEN)
            .unwrap();
    });
    let before = resident_bytes();
    let mut body = server.send(Method::GET, "/sparse", &[]).await.into_body();
    let (mut received, mut most, mut largest) = (0, 0, 0);
    while let Some(frame) = body.frame().await {
        let chunk = frame.unwrap().into_data().unwrap();
        received += chunk.len() as u64;
        largest = largest.max(chunk.len());
        if received % (16 << 20) < chunk.len() as u64 {
            most = most.max(resident_bytes());
        }
    }
    assert_eq!(received, LEN);
    assert!(largest <= 256 << 10, "chunks of {largest} B");
    let grown = most.saturating_sub(before);
    assert!(
        grown < LEN / 4,
        "resident memory grew by {} MiB",
        grown >> 20
    );
}

#[tokio::test]
async fn clients_see_whole_responses_or_a_break() {
    let server = Server::new(&FilesConfig::default(), |root| {
        write(&root.join("a.txt"), "hello");
        File::create(root.join("big"))
            .unwrap()
            .set_len(64 << 20)
            .unwrap();
    });
    let address = server.listen().await;
    let ask = |request: String| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.to_ascii_lowercase()
    };
    let request = |head: &str| format!("{head}\r\nHost: x\r\nConnection: close\r\n\r\n");

    let get = ask(request("GET /a.txt HTTP/1.1")).await;
    assert!(
        get.starts_with("http/1.1 200 ok\r\n") && get.ends_with("\r\n\r\nhello"),
        "{get}"
    );
    assert_eq!(get.matches("content-length: 5\r\n").count(), 1, "{get}");
    assert_eq!(get.matches("date: ").count(), 1, "{get}");
    let head = ask(request("HEAD /a.txt HTTP/1.1")).await;
    assert!(
        head.contains("content-length: 5\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let current = ask(request("GET /a.txt HTTP/1.1\r\nIf-None-Match: *")).await;
    assert!(current.starts_with("http/1.1 304 "), "{current}");
    assert!(
        !current.contains("content-length") && current.ends_with("\r\n\r\n"),
        "{current}"
    );
    let traversal = ask(request("GET /../../../../etc/passwd HTTP/1.1")).await;
    assert!(traversal.starts_with("http/1.1 400 "), "{traversal}");

    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(request("GET /big HTTP/1.1").as_bytes())
        .await
        .unwrap();
    stream.read_exact(&mut [0; 4096]).await.unwrap();
    File::options()
        .write(true)
        .open(server.path("big"))
        .unwrap()
        .set_len(0)
        .unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.len() < 64 << 20, "the connection ended early");
}

#[tokio::test]
async fn one_connection_of_http_2_is_answered_alike() {
    let server = Server::new(&FilesConfig::default(), |root| {
        write(&root.join("a.txt"), "hello");
        write(&root.join("big"), vec![7; 3 << 20]);
    });
    let stream = TcpStream::connect(server.listen().await).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let cases = [
        (Method::GET, "/a.txt", None, 200, 5),
        (Method::HEAD, "/a.txt", None, 200, 0),
        (Method::GET, "/big", None, 200, 3 << 20),
        (Method::GET, "/big", Some("bytes=-5"), 206, 5),
        (Method::GET, "/absent", None, 404, 14),
    ];
    for (method, path, range, status, len) in cases {
        let mut request = Request::builder()
            .method(&method)
            .uri(format!("http://host{path}"));
        if let Some(range) = range {
            request = request.header(header::RANGE, range);
        }
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(
            response.status(),
            StatusCode::from_u16(status).unwrap(),
            "{method} {path}"
        );
        assert!(
            response.headers().contains_key(header::CONTENT_LENGTH),
            "{method} {path}"
        );
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len(), len, "{method} {path}");
    }
}

proptest::proptest! {
    /// Every request gets an answer, and a part is never longer than the whole.
    #[test]
    fn any_request_is_answered(
        path in "/(index\\.html|dir|\\.\\.|\\.|%2[eEfF]|%00|%|/|[!-~]){0,8}",
        headers in proptest::collection::vec((0_usize..8, "[ -~]{0,30}"), 0..4),
        range in "bytes=([0-9]{0,20}-[0-9]{0,20},?){0,4}",
    ) {
        const NAMES: [&str; 8] = [
            "accept-encoding", "if-match", "if-none-match", "if-modified-since",
            "if-unmodified-since", "if-range", "range", "host",
        ];
        let Ok(uri) = path.parse::<http::Uri>() else { return Ok(()) };
        let server = Server::new(&FilesConfig { listing: true, ..FilesConfig::default() }, |root| {
            write(&root.join("index.html"), "0123456789");
            write(&root.join("dir/file"), "x");
        });
        let headers: Vec<_> = headers.iter().map(|(name, value)| (NAMES[*name], &**value)).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for headers in [&headers[..], &[("range", &range)]] {
                let answer = server.get(&uri.to_string(), headers).await;
                proptest::prop_assert!(answer.status < 500, "{uri} {headers:?}: {answer:?}");
                if answer.status == 206 && !answer.headers["content-type"].as_bytes().starts_with(b"multipart") {
                    proptest::prop_assert!(answer.body.len() <= 10, "{uri} {headers:?}: {answer:?}");
                }
            }
            Ok(())
        })?;
    }
}

#[test]
fn unusable_settings_are_reported_by_name() {
    let open = |config: FilesConfig| {
        Files::open(Path::new("."), &config)
            .unwrap_err()
            .to_string()
    };
    let index = vec!["../x".to_owned()];
    let error = open(FilesConfig {
        index,
        ..FilesConfig::default()
    });
    assert_eq!(error, "`index`: `../x` is not a plain file name");
    let small_body = ByteSize::from_mib(2);
    let error = open(FilesConfig {
        small_body,
        ..FilesConfig::default()
    });
    assert_eq!(error, "`small_body` is more than 1MiB");
    for page in ["../secret", ".hidden.html", "errors/"] {
        let not_found = Some(page.to_owned());
        let error = open(FilesConfig {
            not_found,
            ..FilesConfig::default()
        });
        assert!(
            error.starts_with(&format!("`not_found`: `{page}` is no path")),
            "{error}"
        );
    }
    let error = Files::open(Path::new("absent"), &FilesConfig::default()).unwrap_err();
    assert_eq!(error.to_string(), "opening the root directory `absent`");
}

/// Physical memory that this process has, with page cache it maps left out.
fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let mut fields = statm.split(' ').map(|field| field.parse::<u64>().unwrap());
    let resident = fields.nth(1).unwrap();
    let shared = fields.next().unwrap();
    (resident - shared) * 4096
}

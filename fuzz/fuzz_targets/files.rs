//! Requests for files: a path in the first line, then header fields. No file outside of the root is
//! ever sent, and bodies are as long as announced.
#![no_main]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::LazyLock;

use bytes::Bytes;
use hikyaku_content::{Content, Files, FilesConfig, Peer, RequestBody, Scheme};
use hikyaku_units::arm::Version;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

fuzz_target!(|text: &str| {
    let Some(request) = request(text) else {
        return;
    };
    let Site {
        runtime,
        content,
        peer,
        ..
    } = &*SITE;
    let response = runtime.block_on(async {
        let (head, body) = content.respond(request, peer).await.into_parts();
        let body = body.collect().await.expect("files can be read").to_bytes();
        Response::from_parts(head, body)
    });
    check(&response);
});

fn request(text: &str) -> Option<Request<RequestBody>> {
    let mut lines = text.lines();
    let mut request = Request::get(lines.next()?);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        request = request.header(name, value.trim());
    }
    let empty = Empty::new().map_err(|never| match never {});
    request.body(RequestBody::new(empty)).ok()
}

fn check(response: &Response<Bytes>) {
    let (status, body) = (response.status(), response.body());
    assert!(!status.is_server_error(), "{response:?}");
    let leaked = body.windows(SECRET.len()).any(|part| part == SECRET);
    assert!(!leaked, "a file outside of the root was sent: {response:?}");
    let field = |name| response.headers().get(name).map(|value| value.as_bytes());
    if let Some(length) = field(header::CONTENT_LENGTH) {
        assert_eq!(length, body.len().to_string().as_bytes());
    }
    if let Some(location) = field(header::LOCATION) {
        // A second slash, or a character that browsers take for one, would lead to another host.
        let elsewhere = matches!(location, [b'/', b'/' | b'\\', ..]);
        assert!(location.starts_with(b"/") && !elsewhere, "{response:?}");
    }
    if status == StatusCode::PARTIAL_CONTENT && field(header::CONTENT_RANGE).is_none() {
        let parts = field(header::CONTENT_TYPE).expect("several parts have a type");
        assert!(parts.starts_with(b"multipart/byteranges"), "{response:?}");
    }
}

struct Site {
    runtime: Runtime,
    content: Content,
    peer: Peer,
    _directory: TempDir,
}

const SECRET: &[u8] = b"nobody may see this";

static SITE: LazyLock<Site> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("root");
    fill(directory.path(), &root).expect("files");
    let config = FilesConfig {
        listing: true,
        not_found: Some("404.html".to_owned()),
        ..FilesConfig::default()
    };
    let localhost = SocketAddr::from(([127, 0, 0, 1], 8443));
    Site {
        runtime: Builder::new_current_thread().build().expect("a runtime"),
        content: Files::open(&root, &config).expect("a root").into(),
        peer: Peer {
            remote: localhost,
            local: localhost,
            version: Version::H2,
            tls: None,
            scheme: Scheme::Https,
            server_name: None,
            via: None,
        },
        _directory: directory,
    }
});

fn fill(outer: &Path, root: &Path) -> std::io::Result<()> {
    fs::write(outer.join("secret"), SECRET)?;
    fs::create_dir_all(root.join("d/e"))?;
    fs::write(root.join("index.html"), "<p>hello")?;
    fs::write(root.join("404.html"), "<p>nothing")?;
    fs::write(root.join("a.txt"), "0123456789")?;
    fs::write(root.join("a.txt.gz"), "gzip")?;
    fs::write(root.join("a.txt.br"), "br")?;
    fs::write(root.join(".hidden"), SECRET)?;
    // A file that is too large to be kept in memory.
    fs::write(root.join("d/large.bin"), vec![7; 40_000])?;
    symlink("../secret", root.join("out"))?;
    symlink("../../secret", root.join("d/out"))?;
    symlink("a.txt", root.join("in"))
}

//! Status codes by path, method and settings.

use std::ffi::OsStr;
use std::fs::{self};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use hikyaku_content::files::Symlinks;
use hikyaku_content::{Files, FilesConfig};
use hikyaku_units::ByteSize;
use http::Method;

use crate::support::*;

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
        ("/evil.example", "./evil.example/"),
        ("//evil.example", "./evil.example/"),
        ("///evil.example?a=//b", "./evil.example/?a=//b"),
        ("/a%20b/c?q=%2F", "./c/?q=%2F"),
        ("/%61%20b", "./a%20b/"),
        ("/a%20b//c", "./c/"),
        ("/x%5Cevil", "./x%5Cevil/"),
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

#[tokio::test]
async fn an_extension_is_tried_where_a_path_names_no_file() {
    let config = FilesConfig {
        extensions: vec![".html".to_owned(), ".htm".to_owned()],
        fallback: Some("index.html".to_owned()),
        ..FilesConfig::default()
    };
    let server = Server::new(&config, |root| {
        write(&root.join("index.html"), "home");
        write(&root.join("about.html"), "about");
        write(&root.join("about.html.gz"), "about, smaller");
        write(&root.join("old.htm"), "old");
        write(&root.join("both.html"), "first");
        write(&root.join("both.htm"), "second");
        write(&root.join("plain"), "plain");
        write(&root.join("plain.html"), "page");
        write(&root.join("dir.html"), "dir page");
        write(&root.join("dir/index.html"), "dir");
        write(&root.join("dir/deep.html"), "deep");
        write(&root.join("other/index.html"), "other");
        write(&root.join("odd.html/index.html"), "odd");
        write(&root.join(".hidden.html"), "hidden");
    });
    let long = format!("/{}", "a".repeat(253));
    let cases = [
        ("/about", 200, "about"),
        ("/about?x", 200, "about"),
        ("/about.html", 200, "about"),
        ("/old", 200, "old"),
        ("/both", 200, "first"),
        ("/plain", 200, "plain"),
        ("/dir", 200, "dir page"),
        ("/dir/", 200, "dir"),
        ("/dir/deep", 200, "deep"),
        ("/other", 301, "301 Moved Permanently\n"),
        // Other paths have the page of the application.
        ("/about/", 200, "home"),
        ("/odd", 200, "home"),
        ("/.hidden", 200, "home"),
        ("/none", 200, "home"),
        ("/", 200, "home"),
        (&*long, 200, "home"),
    ];
    // Twice, since the second time files are known.
    for (path, status, body) in cases.iter().chain(&cases) {
        let answer = server.get(path, &[]).await;
        assert_eq!((answer.status, answer.text()), (*status, *body), "{path}");
        let is_page = *status == 200 && *path != "/plain";
        let media_type = answer.header("content-type");
        assert_eq!(media_type == Some("text/html"), is_page, "{path}");
    }
    let gzip = server.get("/about", &[("accept-encoding", "gzip")]).await;
    assert_eq!(gzip.text(), "about, smaller");
    let tag = server.get("/about", &[]).await;
    let tag = tag.header("etag").unwrap();
    let known = server.get("/about", &[("if-none-match", tag)]).await;
    assert_eq!(known.status, 304);
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
    let long = format!(".{}", "a".repeat(64));
    for extension in ["html", ".", "", "./x", &*long] {
        let extensions = vec![extension.to_owned()];
        let error = open(FilesConfig {
            extensions,
            ..FilesConfig::default()
        });
        let want = format!("`extensions`: `{extension}` is no extension such as `.html`");
        assert_eq!(error, want);
    }
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

//! Content codings of precompressed files (RFC 9110 §12.5.3).

use std::collections::BTreeMap;
use std::fs::{self};
use std::os::unix::fs::symlink;
use std::path::Path;

use hikyaku_content::FilesConfig;
use hikyaku_content::files::{CacheRule, Coding};

use crate::support::*;

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

//! Files, coded once and kept, or coded while they are sent.

use hikyaku_content::FilesConfig;
use hikyaku_content::files::CacheRule;
use hikyaku_testkit::noise;
use hikyaku_units::ByteSize;
use hikyaku_units::arm::Version;
use http::Method;

use crate::common::peer;
use crate::support::*;

/// Larger than any file that is kept.
const LARGE: usize = 3 << 20;

fn site() -> Site {
    Site::of_files(files(), config(), |root| {
        for (name, content) in [
            ("kept.css", text(100_000)),
            ("small.html", text(5000)),
            ("large.txt", text(LARGE)),
            ("short.txt", text(1023)),
            ("picture.png", text(5000)),
        ] {
            std::fs::write(root.join(name), content).unwrap();
        }
        std::fs::write(root.join("noise.txt"), noise(5000)).unwrap();
    })
}

#[tokio::test]
async fn files_come_in_the_coding_that_the_client_takes() {
    let site = site();
    for (name, len) in [
        ("kept.css", 100_000),
        ("small.html", 5000),
        ("large.txt", LARGE),
    ] {
        let path = format!("/{name}");
        let mut tags = std::collections::BTreeSet::new();
        for (accepts, want) in [
            ("gzip, deflate, br, zstd", Some("zstd")),
            ("gzip, br", Some("br")),
            ("gzip", Some("gzip")),
            ("gzip;q=0.1, br;q=0.2", Some("br")),
            ("deflate", None),
            ("", None),
        ] {
            let got = site.get(&path, &[("accept-encoding", accepts)]).await;
            let what = format!("{path} {accepts}");
            assert_eq!(got.status, 200, "{what}");
            assert_eq!(got.header("content-encoding"), want, "{what}");
            assert_eq!(got.header("vary"), Some("accept-encoding"), "{what}");
            assert!(got.decoded() == text(len).as_bytes(), "{what}");
            assert!(want.is_none() || got.body.len() < len / 2, "{what}");
            tags.insert(got.header("etag").unwrap().to_owned());
        }
        assert_eq!(tags.len(), 4, "a tag for each coding: {tags:?}");
    }
}

#[tokio::test]
async fn a_coded_file_is_made_once_and_then_sent_from_memory() {
    let site = site();
    for path in ["/kept.css", "/small.html"] {
        for accepts in ["zstd", "br", "gzip"] {
            assert!(site.whole(path, accepts).is_none(), "{path} {accepts}");
            let got = site.get(path, &[("accept-encoding", accepts)]).await;
            let length = got.body.len().to_string();
            assert_eq!(got.header("content-length"), Some(&*length), "{path}");
            assert_eq!(got.header("accept-ranges"), Some("bytes"), "{path}");
            let (first, second) = (site.whole(path, accepts), site.whole(path, accepts));
            let (first, second) = (first.unwrap(), second.unwrap());
            assert_eq!(first.content(), &got.body, "{path} {accepts}");
            assert_eq!(first.content().as_ptr(), second.content().as_ptr());
            assert_eq!(first.headers(), &got.headers, "{path} {accepts}");
        }
    }
    let plain = site.whole("/small.html", "deflate").unwrap();
    assert_eq!(plain.content(), text(5000).as_bytes());
    assert_eq!(plain.headers()["vary"], "accept-encoding");
    site.get("/large.txt", &[("accept-encoding", "br")]).await;
    assert!(site.whole("/large.txt", "br").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_at_once_share_one_coding() {
    let site = std::sync::Arc::new(site());
    let asking = (0..8).map(|_| {
        let site = std::sync::Arc::clone(&site);
        tokio::spawn(async move { site.get("/kept.css", &[("accept-encoding", "br")]).await })
    });
    let mut places = std::collections::BTreeSet::new();
    for got in asking.collect::<Vec<_>>() {
        let got = got.await.unwrap();
        assert_eq!(got.header("content-encoding"), Some("br"));
        places.insert(got.body.as_ptr().addr());
    }
    assert_eq!(places.len(), 1, "all have the same bytes in memory");
}

#[tokio::test]
async fn some_files_stay_as_they_are() {
    let cache_control = vec![CacheRule {
        pattern: "kept.css".to_owned(),
        value: "public, no-transform".to_owned(),
    }];
    let kept_plain = FilesConfig {
        cache_control,
        ..files()
    };
    let site = Site::of_files(kept_plain, config(), |root| {
        for (name, content) in [
            ("kept.css", text(5000).into_bytes()),
            ("short.txt", text(1023).into_bytes()),
            ("picture.png", text(5000).into_bytes()),
            ("noise.txt", noise(5000)),
        ] {
            std::fs::write(root.join(name), content).unwrap();
        }
    });
    for (path, varies) in [
        ("/kept.css", None),
        ("/short.txt", None),
        ("/picture.png", None),
        // Coding it saves nothing.
        ("/noise.txt", Some("accept-encoding")),
    ] {
        for _ in 0..2 {
            let got = site.get(path, &[("accept-encoding", "br")]).await;
            assert_eq!(got.header("content-encoding"), None, "{path}");
            assert_eq!(got.header("vary"), varies, "{path}");
            assert!(got.header("etag").unwrap().starts_with('"'), "{path}");
            assert!(site.whole(path, "br").is_some(), "{path}");
        }
    }
}

#[tokio::test]
async fn files_on_disk_go_before_codings_that_are_made() {
    let site = Site::of_files(files(), config(), |root| {
        std::fs::write(root.join("a.js"), text(5000)).unwrap();
        std::fs::write(root.join("a.js.gz"), "on disk").unwrap();
    });
    for (accepts, coding, on_disk) in [
        ("gzip, br, zstd", "gzip", true),
        ("gzip;q=0.5, br", "br", false),
        ("zstd", "zstd", false),
    ] {
        let got = site.get("/a.js", &[("accept-encoding", accepts)]).await;
        assert_eq!(got.header("content-encoding"), Some(coding), "{accepts}");
        assert_eq!(got.body == "on disk", on_disk, "{accepts}");
    }
}

#[tokio::test]
async fn conditions_hold_for_the_coding_that_is_sent() {
    let site = site();
    let br = ("accept-encoding", "br");
    for (path, is_kept) in [("/kept.css", true), ("/large.txt", false)] {
        let coded = site.get(path, &[br]).await;
        let plain = site.get(path, &[]).await;
        let (coded, plain) = (coded.header("etag").unwrap(), plain.header("etag").unwrap());
        assert_eq!(coded.starts_with('"'), is_kept, "{path}: {coded}");
        let weak = format!("W/{}", coded.trim_start_matches("W/"));
        let strong = |status| if is_kept { status } else { 412 };
        let cases = [
            (("if-none-match", coded), 304),
            (("if-none-match", &*weak), 304),
            (("if-none-match", plain), 200),
            (("if-none-match", "*"), 304),
            (("if-match", coded), strong(200)),
            (("if-match", plain), 412),
        ];
        for (condition, want) in cases {
            let got = site.get(path, &[br, condition]).await;
            assert_eq!(got.status, want, "{path} {condition:?}");
            if want == 304 {
                assert_eq!(got.header("etag"), Some(coded), "{path}");
                assert_eq!(got.header("vary"), Some("accept-encoding"), "{path}");
                assert!(got.body.is_empty(), "{path}");
            }
        }
        let got = site.get(path, &[("if-none-match", coded)]).await;
        assert_eq!(
            got.status, 200,
            "{path}: the client takes no coding any more"
        );
        assert_eq!(got.header("etag"), Some(plain), "{path}");
    }
}

#[tokio::test]
async fn ranges_are_those_of_coded_bytes_that_are_kept() {
    let site = site();
    let (br, range) = (("accept-encoding", "br"), ("range", "bytes=10-19"));
    let whole = site.get("/kept.css", &[br]).await;
    let tag = whole.header("etag").unwrap();
    for condition in [None, Some(("if-range", tag))] {
        let fields: Vec<_> = [br, range].into_iter().chain(condition).collect();
        let got = site.get("/kept.css", &fields).await;
        assert_eq!(got.status, 206, "{condition:?}");
        assert_eq!(got.header("content-encoding"), Some("br"));
        assert_eq!(got.body, whole.body.slice(10..20));
    }
    let plain = site.get("/kept.css", &[]).await;
    let plain = ("if-range", plain.header("etag").unwrap());
    let got = site.get("/kept.css", &[br, range, plain]).await;
    assert_eq!(
        got.status, 200,
        "the part of the plain file fits to no coded byte"
    );

    let got = site.get("/large.txt", &[br, range]).await;
    assert_eq!(got.status, 200, "nobody knows the coded bytes yet");
    assert_eq!(got.header("accept-ranges"), None);
    let got = site.get("/large.txt", &[range]).await;
    assert_eq!(
        (got.status, &got.body[..]),
        (206, &text(LARGE).as_bytes()[10..20])
    );
}

#[tokio::test]
async fn head_has_the_fields_of_get() {
    let site = site();
    for path in ["/kept.css", "/large.txt"] {
        let br = ("accept-encoding", "br");
        let head = site.send(Method::HEAD, path, &[br]).await;
        let get = site.get(path, &[br]).await;
        assert_eq!(head.headers, get.headers, "{path}");
        assert!(head.body.is_empty(), "{path}");
        assert_eq!(head.header("content-length").is_some(), path == "/kept.css");
    }
}

#[tokio::test]
async fn pages_of_the_server_are_coded_too() {
    let with_pages = FilesConfig {
        listing: true,
        not_found: Some("404.html".to_owned()),
        ..files()
    };
    let site = Site::of_files(with_pages, config(), |root| {
        std::fs::write(root.join("404.html"), text(5000)).unwrap();
        for number in 0..100 {
            std::fs::write(root.join(format!("file-{number}")), "").unwrap();
        }
    });
    for (path, status) in [("/", 200), ("/absent", 404)] {
        let plain = site.get(path, &[]).await;
        let coded = site.get(path, &[("accept-encoding", "gzip")]).await;
        assert_eq!((plain.status, coded.status), (status, status));
        assert_eq!(coded.header("content-encoding"), Some("gzip"), "{path}");
        assert_eq!(coded.header("content-length"), None, "{path}");
        assert_eq!(coded.header("vary"), Some("accept-encoding"), "{path}");
        assert_eq!(coded.decoded(), plain.body, "{path}");
    }
}

#[tokio::test]
async fn without_a_cache_files_are_coded_while_they_are_sent() {
    let no_cache = hikyaku_content::CompressionConfig {
        cache: ByteSize::from_bytes(0),
        ..config()
    };
    let no_entries = FilesConfig {
        cache_entries: 0,
        ..files()
    };
    for (settings, compression) in [(files(), no_cache), (no_entries, config())] {
        let site = Site::of_files(settings, compression, |root| {
            std::fs::write(root.join("a.txt"), text(5000)).unwrap();
        });
        for _ in 0..2 {
            let got = site.get("/a.txt", &[("accept-encoding", "br")]).await;
            assert_eq!(got.header("content-encoding"), Some("br"));
            assert!(got.header("etag").unwrap().starts_with("W/"));
            assert_eq!(got.header("content-length"), None);
            assert_eq!(got.decoded(), text(5000).as_bytes());
            assert!(site.whole("/a.txt", "br").is_none());
        }
    }
}

#[tokio::test]
async fn without_memory_files_are_sent_plain() {
    let compression = hikyaku_content::CompressionConfig {
        memory: ByteSize::from_bytes(0),
        ..config()
    };
    let site = Site::of_files(files(), compression, |root| {
        std::fs::write(root.join("kept.txt"), text(5000)).unwrap();
        std::fs::write(root.join("large.txt"), text(LARGE)).unwrap();
    });
    for (path, len) in [("/kept.txt", 5000), ("/large.txt", LARGE)] {
        let got = site.get(path, &[("accept-encoding", "br")]).await;
        assert_eq!(got.header("content-encoding"), None, "{path}");
        assert_eq!(got.header("vary"), Some("accept-encoding"), "{path}");
        assert!(got.body == text(len), "{path}");
    }
}

#[test]
fn files_in_memory_are_found_without_an_allocation() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let accepts = "gzip, deflate, br, zstd";
    for compression in [hikyaku_content::CompressionConfig::default(), config()] {
        let is_on = !compression.encodings.is_empty();
        let site = Site::of_files(files(), compression, |root| {
            std::fs::write(root.join("a.txt"), text(5000)).unwrap();
        });
        let fields = [("accept-encoding", accepts)];
        let got = runtime.block_on(site.get("/a.txt", &fields));
        assert_eq!(got.header("content-encoding").is_some(), is_on);
        let (request, peer) = (Site::request("/a.txt", accepts), peer(Version::H2));
        let allocations = allocation_counter::measure(|| {
            assert!(site.whole_by(&request, &peer).is_some());
        });
        assert_eq!(allocations.count_total, 0, "compression: {is_on}");
    }
}

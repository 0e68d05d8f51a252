use std::sync::Arc;

use http::{HeaderMap, Request, header};

use super::spread::Spread;
use super::{Shards, ShardsConfig, ShardsError, Treatment};
use crate::pages::Policies;
use crate::tls::{Certificate, Source};

/// Shards `s1.test` to `s7.test`, and what `more` says.
pub(super) fn shards(more: &str) -> Arc<Shards> {
    let hosts: Vec<String> = (1..=7).map(|n| format!("'s{n}.test'")).collect();
    let text = format!("hosts = [{}]\n{more}", hosts.join(","));
    let config = toml::from_str(&text).unwrap();
    Arc::new(made(&config).unwrap().unwrap())
}

fn made(config: &ShardsConfig) -> Result<Option<Shards>, ShardsError> {
    let names = ["www.test", "*.www.test", "192.0.2.7"].map(str::to_owned);
    let shards = (1..=8).map(|n| format!("s{n}.test"));
    let names = names.into_iter().chain(shards).collect();
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let certificate = Certificate::load(Source::SelfSigned { names }, &provider).unwrap();
    Shards::new(config, Arc::new(certificate))
}

/// Spreads the page `https://www.test/dir/page` over so many connections.
pub(super) fn spread(connections: u8, policy: &str) -> Spread {
    let mut policies = Policies::default();
    if !policy.is_empty() {
        policies.add(policy);
    }
    let page = "https://www.test/dir/page?x".parse().unwrap();
    Spread::new(shards(""), page, connections, policies)
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let cases = [
        (
            "hosts = ['s1.test', 's1.test']",
            "`shards.hosts` names s1.test twice",
        ),
        (
            "hosts = ['elsewhere.test']",
            "`shards.hosts` names elsewhere.test, which the certificate does not cover (it has \
             www.test, *.www.test, s1.test",
        ),
        (
            "hosts = ['192.0.2.8']",
            "`shards.hosts` names 192.0.2.8, which the certificate does not cover",
        ),
        (
            "hosts = ['a','b','c','d','e','f','g','h']",
            "`shards.hosts` names 8 hosts; at most 7 are used",
        ),
        (
            "hosts = ['s1.test']\npaths = ['[']",
            "`shards.paths`: reading the pattern `[`",
        ),
    ];
    for (text, want) in cases {
        let error = made(&toml::from_str(text).unwrap())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(want), "{text}: {error}");
    }
    let fits = "hosts = ['s1.test', 's1.test:8443', 'a.www.test', '192.0.2.7']";
    assert!(made(&toml::from_str(fits).unwrap()).unwrap().is_some());
    assert!(made(&ShardsConfig::default()).unwrap().is_none());
}

#[test]
fn references_go_where_they_always_go() {
    let names = |connections| -> Vec<Option<String>> {
        let spread = spread(connections, "");
        let letter = |n: u8| char::from(b'a' + n % 20);
        let all = (0..400u16).map(|n| {
            let [high, low] = [n / 20, n % 20].map(|part| letter(part as u8));
            format!("/img/{high}{low}.png")
        });
        all.map(|path| spread.moved(&path, super::Kind::Image))
            .collect()
    };
    assert!(names(1).iter().all(Option::is_none));
    for connections in 2..=8 {
        let now = names(connections);
        assert_eq!(now, names(connections));
        for shard in 1..connections {
            let host = format!("https://s{shard}.test/");
            let there = now
                .iter()
                .flatten()
                .filter(|url| url.starts_with(&host))
                .count();
            let fair = 400 / usize::from(connections);
            assert!(
                (fair / 2..fair * 2).contains(&there),
                "{there} of 400 at {host}"
            );
        }
        // With one connection fewer only those of the last shard move.
        let last = format!("https://s{}.test/", connections - 1);
        for (now, before) in now.iter().zip(names(connections - 1)) {
            let moved = now.as_ref().is_some_and(|url| url.starts_with(&last));
            assert!(moved || *now == before, "{now:?} {before:?}");
        }
    }
}

#[test]
fn numbered_resources_take_turns() {
    for (name, connections, each) in [
        ("image-@.png", 3, 4),
        ("image-@.png", 6, 2),
        ("2024/0@.mp4", 4, 3),
        ("@", 2, 6),
    ] {
        let mut spread = Spread::new(
            shards("paths = ['**']"),
            "https://www.test/".parse().unwrap(),
            connections,
            Policies::default(),
        );
        spread.rebase("/gallery/");
        let mut counts = std::collections::BTreeMap::new();
        for number in 1..=12 {
            let moved = spread.moved(&name.replace('@', &number.to_string()), super::Kind::Image);
            let host = moved.map(|url| url.split('/').nth(2).unwrap().to_owned());
            *counts.entry(host).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), usize::from(connections), "{name}: {counts:?}");
        assert!(
            counts.values().all(|count| *count == each),
            "{name}: {counts:?}"
        );
    }
}

/// Where a reference of the page goes, without its shard; `` where it stays. One of eight
/// stays anyhow, so that each `@` in it stands for several names.
fn goes(spread: &Spread, reference: &str) -> String {
    let mut names = ["k", "l", "m", "n", "o", "p"].into_iter();
    let found = names.find_map(|name| {
        let moved = spread.moved(&reference.replace('@', name), super::Kind::Image)?;
        let (_, path) = moved.strip_prefix("https://s")?.split_once(".test")?;
        Some(path.replace(&format!("{name}."), "@."))
    });
    found.unwrap_or_default()
}

#[test]
fn references_are_read_as_browsers_read_them() {
    let spread = spread(8, "");
    let cases = [
        ("/@.png", "/@.png"),
        ("@.png", "/dir/@.png"),
        ("./@.png", "/dir/@.png"),
        ("../../@.png", "/@.png"),
        ("https://www.test/@.png", "/@.png"),
        ("HTTPS://WWW.test:443/@.png", "/@.png"),
        ("//www.test/@.png", "/@.png"),
        (" \n/@.png\t", "/@.png"),
        ("/@.png?v=1&amp;w=2#f", "/@.png?v=1&amp;w=2#f"),
        ("/@.PNG", "/@.PNG"),
        ("/a%20@.png", "/a%20@.png"),
        // Other origins.
        ("http://www.test/@.png", ""),
        ("https://www.test:8443/@.png", ""),
        ("https://other.test/@.png", ""),
        ("//other.test/@.png", ""),
        ("https://me@www.test/@.png", ""),
        ("data:image/png;base64,AA==", ""),
        ("blob:https://www.test/@.png", ""),
        ("javascript:@.png", ""),
        // Not static.
        ("/a.php", ""),
        ("/a", ""),
        ("/@.png/", ""),
        ("?@.png", ""),
        ("#@.png", ""),
        ("", ""),
        // Read in other ways by some.
        ("/a&lt;.png", ""),
        ("/\u{e9}.png", ""),
        ("\\@.png", ""),
        ("/a\nb.png", ""),
        ("/a b.png", ""),
        ("/a'.png", ""),
    ];
    for (reference, want) in cases {
        assert_eq!(goes(&spread, reference), want, "`{reference}`");
    }
}

#[test]
fn preloaded_resources_stay() {
    let mut spread = spread(8, "");
    spread.keep_linked("</k.png>; rel=preload; as=image, <l.png?v=1>;rel=preload, <>;");
    spread.keep_linked("<https://other.test/m.png>; rel=preload");
    for n in 0..20 {
        for kept in ["/k.png", "/dir/l.png"] {
            assert_eq!(
                spread.moved(&format!("{kept}?{n}"), super::Kind::Image),
                None
            );
        }
    }
    assert_eq!(goes(&spread, "/m@.png"), "/m@.png");
}

#[test]
fn a_base_holds_for_the_references_after_it() {
    // href of base, reference, where it goes
    let cases = [
        ("/other/", "@.png", "/other/@.png"),
        ("sub/", "@.png", "/dir/sub/@.png"),
        ("https://www.test/x/y", "@.png", "/x/@.png"),
        ("https://other.test/", "@.png", ""),
        ("https://other.test/", "https://www.test/@.png", "/@.png"),
        ("data:,x", "https://www.test/@.png", ""),
        ("/a&amp;b/", "/@.png", ""),
    ];
    for (href, reference, want) in cases {
        let mut spread = spread(8, "");
        spread.rebase(href);
        spread.rebase("/second/");
        assert_eq!(goes(&spread, reference), want, "{href} {reference}");
    }
    let mut limited = spread(8, "base-uri 'self'");
    assert_eq!(goes(&limited, "/@.png"), "/@.png");
    limited.rebase("/other/");
    assert_eq!(goes(&limited, "/@.png"), "");
}

#[test]
fn policies_and_kinds_are_kept() {
    use super::Kind::{Image, Script};
    let spread = spread(8, "img-src 'self' s1.test; script-src 'self'");
    for n in 0..50 {
        let image = spread.moved(&format!("/{n}.png"), Image);
        assert!(image.is_none_or(|url| url.starts_with("https://s1.test/")));
        assert_eq!(spread.moved(&format!("/{n}.js"), Script), None);
    }
    let only_images = Spread::new(
        shards("kinds = ['image']\npaths = ['/img/**']"),
        "https://www.test:8443/".parse().unwrap(),
        8,
        Policies::default(),
    );
    assert_eq!(only_images.moved("/img/a.js", Script), None);
    assert_eq!(only_images.moved("/a.png", Image), None);
    let moved = only_images.moved("/img/x/b.png", Image).unwrap();
    assert!(moved.ends_with(".test:8443/img/x/b.png"), "{moved}");
}

fn request(fields: &[(&'static str, &str)]) -> Request<()> {
    let mut request = Request::get("https://www.test/").body(()).unwrap();
    for (name, value) in fields {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    request
}

#[test]
fn pages_are_asked_for_in_plain() {
    // name, request, is a page, keeps its Accept-Encoding
    type Case<'a> = (&'a str, &'a [(&'static str, &'a str)], bool, bool);
    let cases: &[Case<'_>] = &[
        (
            "a navigation",
            &[("sec-fetch-dest", "document")],
            true,
            false,
        ),
        ("a frame", &[("sec-fetch-dest", "iframe")], true, false),
        (
            "an image",
            &[("sec-fetch-dest", "image"), ("accept", "text/html")],
            false,
            true,
        ),
        (
            "an old browser",
            &[("accept", "text/html,*/*;q=0.8")],
            true,
            false,
        ),
        (
            "its image",
            &[("accept", "image/webp,image/*")],
            false,
            true,
        ),
        ("a program", &[("accept", "*/*")], true, true),
        ("a bare program", &[], true, true),
        (
            "with credentials",
            &[
                ("sec-fetch-dest", "document"),
                ("authorization", "Basic eA=="),
            ],
            false,
            true,
        ),
    ];
    let shards = shards("");
    for (name, fields, page, keeps) in cases {
        let mut request = request(fields);
        request
            .headers_mut()
            .insert("accept-encoding", "gzip".parse().unwrap());
        let treatment = shards.prepare(&mut request, || 4);
        let is_page = matches!(treatment, Some(Treatment::Page(..)));
        assert_eq!(is_page, *page, "{name}");
        assert_eq!(
            request.headers().contains_key("accept-encoding"),
            *keeps,
            "{name}"
        );
    }
    let mut one = request(&[("sec-fetch-dest", "document"), ("accept-encoding", "br")]);
    let treatment = shards.prepare(&mut one, || 1);
    assert!(matches!(treatment, Some(Treatment::Known(_))));
    assert!(one.headers().contains_key("accept-encoding"));
}

#[test]
fn requests_at_a_shard_are_for_the_site() {
    let with_site = shards("site = 'www.test'");
    for (uri, host) in [
        ("https://s1.test/a.png", None),
        ("/a.png", Some("S1.test")),
        ("/a.png", Some("s1.test:8443")),
    ] {
        let mut request = Request::get(uri).body(()).unwrap();
        if let Some(host) = host {
            request
                .headers_mut()
                .insert(header::HOST, host.parse().unwrap());
        }
        let treatment = with_site.prepare(&mut request, || unreachable!());
        assert!(
            matches!(treatment, Some(Treatment::AtShard { origin: None })),
            "{uri}"
        );
        let asked = request.uri().authority().map(ToString::to_string);
        let host = request
            .headers()
            .get(header::HOST)
            .map(|h| h.to_str().unwrap().to_owned());
        assert_eq!(asked.or(host).unwrap(), "www.test");
        assert_eq!(request.uri().path(), "/a.png");
    }
}

#[test]
fn the_sites_own_pages_may_read_resources_they_load_with_cors() {
    // Origin, whether it is allowed
    let cases = [
        ("https://www.test", true),
        ("https://a.www.test:8443", true),
        ("https://192.0.2.7", true),
        ("https://evil.test", false),
        ("http://www.test", false),
        ("null", false),
    ];
    let shards = shards("");
    for (origin, allowed) in cases {
        let mut request = Request::get("https://s1.test/f.woff2").body(()).unwrap();
        request
            .headers_mut()
            .insert(header::ORIGIN, origin.parse().unwrap());
        let treatment = shards.prepare(&mut request, || 4).unwrap();
        let answer = |fields: &[(header::HeaderName, &'static str)]| -> HeaderMap {
            let mut response = http::Response::new(hikyaku_content::Body::empty());
            for (name, value) in fields {
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            let Some(Treatment::AtShard { origin }) = shards.prepare(&mut request.clone(), || 4)
            else {
                panic!("not at a shard");
            };
            let (response, spread) = shards.finish(Treatment::AtShard { origin }, response);
            assert!(!spread);
            response.headers().clone()
        };
        assert!(matches!(treatment, Treatment::AtShard { .. }));
        let got = answer(&[]);
        assert_eq!(
            got.get("access-control-allow-origin").is_some(),
            allowed,
            "{origin}"
        );
        assert_eq!(got["vary"], "origin");
        // The content's own word, or a cookie, goes before.
        let own = answer(&[(header::ACCESS_CONTROL_ALLOW_ORIGIN, "https://b.test")]);
        assert_eq!(own["access-control-allow-origin"], "https://b.test");
        assert!(
            !answer(&[(header::SET_COOKIE, "a=b")]).contains_key("access-control-allow-origin")
        );
    }
}

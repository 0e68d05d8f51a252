//! Clients that Debian packages: curl, nghttp and h2load over TCP, ngtcp2's over QUIC.

use std::fs;
use std::path::Path;
use std::process::Output;

use tempfile::TempDir;

use crate::{BIG, Servers, proxy, run, text};
use hikyaku_testkit::{has, noise, this_test};

/// HTTP versions in curl's options and in its output.
const CURL: [(&str, &str); 2] = [("--http1.1", "1.1"), ("--http2", "2")];

/// Runs curl. Returns `STATUS VERSION` and the received content.
#[track_caller]
fn curl(version: &str, args: &[&str], url: &str) -> (String, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let body = dir.path().join("body");
    let always = [
        version,
        "--silent",
        "--show-error",
        "--insecure",
        "--write-out",
        "%{http_code} %{http_version}",
        "--output",
        body.to_str().unwrap(),
        url,
    ];
    let output = run("curl", &[&always, args].concat());
    let errors = text(&output.stderr);
    assert!(output.status.success(), "curl {version} {args:?}: {errors}");
    (text(&output.stdout), fs::read(body).unwrap_or_default())
}

#[test]
fn curl_over_tcp() {
    if !has(&this_test(), "curl") {
        return;
    }
    let servers = Servers::start();
    let dir = tempfile::tempdir().unwrap();
    let upload = file(&dir, "upload", &noise(5_000_000));
    let (data, put) = (format!("@{upload}"), upload.as_str());
    let big = servers.files.url("/big.bin");
    let echo = servers.proxy.url("/echo");
    let page = servers.files.url("/");
    // (name, arguments, URL, status, content)
    let cases: [(&str, &[&str], &str, &str, &[u8]); 7] = [
        ("download", &[], &big, "200", &noise(BIG)),
        ("range", &["--range", "5-9"], &big, "206", &noise(10)[5..]),
        ("HEAD", &["--head"], &page, "200", b""),
        (
            "POST",
            &["--data-binary", &data],
            &echo,
            "200",
            &noise(5_000_000),
        ),
        (
            "PUT",
            &["--upload-file", put],
            &echo,
            "200",
            &noise(5_000_000),
        ),
        (
            "PUT of unknown length",
            &[
                "--upload-file",
                put,
                "--header",
                "Transfer-Encoding: chunked",
            ],
            &echo,
            "200",
            &noise(5_000_000),
        ),
        (
            "POST that waits for 100",
            &["--data-binary", &data, "--header", "Expect: 100-continue"],
            &echo,
            "200",
            &noise(5_000_000),
        ),
    ];
    for (option, version) in CURL {
        for (name, args, url, status, content) in cases {
            let (got, body) = curl(option, args, url);
            assert_eq!(got, format!("{status} {version}"), "{name} {option}");
            // For HEAD, curl prints the header section.
            let is_same = name == "HEAD" || body == content;
            assert!(is_same, "{name} {option}: {} bytes", body.len());
        }
    }
}

#[test]
fn curl_sees_early_answers() {
    if !has(&this_test(), "curl") {
        return;
    }
    let server = proxy(&["limits.body_size=64KiB"]);
    let dir = tempfile::tempdir().unwrap();
    let data = format!("@{}", file(&dir, "upload", &noise(5_000_000)));
    for (option, version) in CURL {
        for number in 0..20 {
            let (got, _) = curl(option, &["--data-binary", &data], &server.url("/echo"));
            assert_eq!(got, format!("413 {version}"), "{number}");
        }
    }
}

#[test]
fn nghttp_and_h2load_over_tcp() {
    let test = this_test();
    if !has(&test, "nghttp") || !has(&test, "h2load") {
        return;
    }
    let servers = Servers::start();
    let dir = tempfile::tempdir().unwrap();
    let upload = file(&dir, "upload", &noise(1_000_000));
    let (page, echo) = (servers.files.url("/"), servers.proxy.url("/echo"));
    let nghttp: [(&str, &[&str], &str, usize); 4] = [
        ("hundred requests at once", &["-m", "100"], &page, 100),
        (
            "small windows",
            &["-w", "14", "-W", "14", "-m", "9"],
            &page,
            9,
        ),
        ("upload", &["-d", &upload], &echo, 1),
        (
            "upload with trailers",
            &["-d", &upload, "--trailer", "x-from-client: a"],
            &echo,
            1,
        ),
    ];
    for (name, args, url, want) in nghttp {
        let output = run("nghttp", &[&["-nv", "-y"], args, &[url]].concat());
        let report = text(&output.stdout);
        let count = report.matches(":status: 200").count();
        assert_eq!(count, want, "{name}: {report}");
        let is_calm = !report.contains("recv RST_STREAM") && !report.contains("[ERROR]");
        assert!(is_calm, "{name}: {report}");
    }
    let h2load: [(&str, &[&str]); 3] = [
        ("HTTP/2", &["-m", "32"]),
        (
            "HTTP/2 with small windows",
            &["-m", "32", "-w", "10", "-W", "12"],
        ),
        ("HTTP/1.1", &["--h1"]),
    ];
    for (name, args) in h2load {
        let always = ["-n", "2000", "-c", "20", &page];
        let report = text(&run("h2load", &[args, &always].concat()).stdout);
        let want = "2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout";
        assert!(report.contains(want), "{name}: {report}");
    }
}

#[test]
fn ngtcp2_over_quic() {
    if !has(&this_test(), "gtlsclient") {
        return;
    }
    let servers = Servers::start();
    let dir = tempfile::tempdir().unwrap();
    let upload = file(&dir, "upload", &noise(1_000_000));
    let session = dir.path().join("session").display().to_string();
    let parameters = dir.path().join("parameters").display().to_string();
    let resumes = ["--session-file", &session, "--tp-file", &parameters];
    let (big, page) = (servers.files.url("/big.bin"), servers.files.url("/"));
    // (name, arguments, URL, responses)
    let cases: [(&str, &[&str], &str, usize); 9] = [
        ("download", &[], &big, 1),
        ("fifty requests", &["-n", "50"], &page, 50),
        ("small windows", &["--max-data", "40000"], &big, 1),
        (
            "lost packets",
            &["--rx-loss", "0.02", "--tx-loss", "0.02"],
            &big,
            1,
        ),
        ("key update", &["--key-update", "1ms"], &big, 1),
        ("another port", &["--change-local-addr", "20ms"], &big, 1),
        ("no connection ID", &["--scid", ""], &page, 1),
        ("first session", &resumes, &page, 1),
        ("resumed session", &resumes, &page, 1),
    ];
    for (name, args, url, want) in cases {
        let output = gtlsclient(servers.files.port(), args, &dir, url);
        expect_responses(name, &output, want);
        if name == "key update" {
            assert!(text(&output.stderr).contains("Initiate key update"));
        }
        if url == big {
            let got = fs::read(dir.path().join("big.bin")).unwrap();
            assert!(got == noise(BIG), "{name}: {} bytes", got.len());
            fs::remove_file(dir.path().join("big.bin")).unwrap();
        }
    }
    let args = ["--http-method", "POST", "--data", &upload];
    let url = servers.proxy.url("/echo");
    let output = gtlsclient(servers.proxy.port(), &args, &dir, &url);
    expect_responses("upload", &output, 1);
    let got = fs::read(dir.path().join("echo")).unwrap();
    assert!(got == noise(1_000_000), "upload: {} bytes", got.len());
}

fn gtlsclient(port: u16, args: &[&str], downloads: &TempDir, url: &str) -> Output {
    let port = port.to_string();
    let always = [
        "--no-quic-dump",
        "--no-http-dump",
        "--exit-on-all-streams-close",
        "--download",
        downloads.path().to_str().unwrap(),
        "127.0.0.1",
        &port,
        url,
    ];
    // This client gives up where the server's own key update is not confirmed when its own is due.
    let both = "ngtcp2_conn_initiate_key_update: ERR_INVALID_STATE";
    (0..10)
        .map(|_| run("gtlsclient", &[args, &always].concat()))
        .find(|output| !text(&output.stderr).contains(both))
        .expect("a key update that does not meet the server's")
}

#[track_caller]
fn expect_responses(name: &str, output: &Output, want: usize) {
    let report = text(&output.stderr);
    let count = report.matches("[:status: 200]").count();
    assert!(output.status.success(), "{name}: {report}");
    assert_eq!(count, want, "{name}: {report}");
}

fn file(dir: &TempDir, name: &str, content: &[u8]) -> String {
    let path: &Path = &dir.path().join(name);
    fs::write(path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

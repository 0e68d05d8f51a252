//! Messages on wrong invocations: the attempt, the fault, and the remedy.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use hikyaku_testkit::{
    Server, Site, binary, certificate, eventually, get, has, hikyaku, plain_http, skip,
};

/// Checks that a command failed, and that its message has all of `words`.
#[track_caller]
fn expect_failure(name: &str, output: &Output, words: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{name} succeeded:\n{message}");
    assert!(!message.contains("panicked"), "{name}:\n{message}");
    for word in words {
        assert!(message.contains(word), "{name}: no `{word}` in:\n{message}");
    }
}

#[test]
fn wrong_configuration_files_are_shown_where_they_are_wrong() {
    let site = Site::new(&[]);
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "unknown key",
            "mptcp = true\nlisten_on = []\n",
            &[
                "line 2",
                "^",
                "unknown field `listen_on`",
                "`listen`",
                "`upstream`",
            ],
        ),
        (
            "unknown key of a section",
            "[timeouts]\nheaders = \"3s\"\n",
            &[
                "line 2",
                "^",
                "unknown field `headers`",
                "`header`",
                "`drain`",
            ],
        ),
        (
            "no unit",
            "[timeouts]\nidle = 30\n",
            &["line 2", "idle = 30", "^"],
        ),
        (
            "wrong unit",
            "[limits]\nheader_size = \"64 parsecs\"\n",
            &["line 2", "header_size = \"64 parsecs\"", "^", "KiB"],
        ),
        (
            "wrong choice",
            "[policy]\nversion = \"h4\"\n",
            &["line 2", "`h4`", "`adaptive`", "`h2`", "`h3`"],
        ),
        (
            "not TOML",
            "listen = [\"127.0.0.1:0\"\nmptcp = true\n",
            &["line 2", "^"],
        ),
    ];
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for (name, text, words) in cases {
        fs::write(path, text).unwrap();
        let output = hikyaku(&["serve", site.path(), "--config", path]);
        expect_failure(name, &output, words);
        expect_failure(name, &output, &["error: ", path]);
        let hint = "hint: `hikyaku config` prints every key with its default";
        expect_failure(name, &output, &[hint]);
    }
}

#[test]
fn wrong_invocations_get_advice() {
    let site = Site::new(&[("file", b"")]);
    let missing = format!("{}/missing", site.path());
    let root = site.path();
    let (cert, key) = certificate();
    let (_, other_key) = certificate();
    site.write("cert.pem", cert.as_bytes());
    site.write("key.pem", key.as_bytes());
    site.write("other.pem", other_key.as_bytes());
    site.write("model.json", b"{\"format\": 1}");
    let file = |name: &str| format!("{root}/{name}");
    let (cert, key, other) = (file("cert.pem"), file("key.pem"), file("other.pem"));
    let model = format!("model.file={}", file("model.json"));
    let no_model = format!("model.file={missing}");
    let access = format!("log.access={missing}/access.log");
    let no_dir = format!("{}/state", file("file"));
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "nothing to serve",
            &[],
            &["nothing to serve: give a directory", "--upstream URL"],
        ),
        (
            "no such root",
            &[&missing],
            &["serving", &missing, "No such file"],
        ),
        (
            "root and upstream",
            &[root, "--upstream", "http://127.0.0.1:1"],
            &["--upstream", "cannot be used with", "[ROOT]"],
        ),
        (
            "root and upstream by keys",
            &["--set", "root=/tmp", "--set", "upstream=http://127.0.0.1:1"],
            &["both `root` and `upstream` are set: keep one of them"],
        ),
        (
            "upstream's URL",
            &["--upstream", "ftp://a"],
            &["reading the upstream's URL `ftp://a`"],
        ),
        (
            "no such configuration",
            &[root, "--config", &missing],
            &["reading the configuration from", &missing, "No such file"],
        ),
        (
            "--set without a value",
            &[root, "--set", "policy.version"],
            &["in `--set policy.version`", "expected KEY=VALUE"],
        ),
        (
            "--set of no key",
            &[root, "--set", "policy.versoin=h2"],
            &[
                "in `--set policy.versoin=h2`",
                "unknown field `versoin`",
                "`version`",
            ],
        ),
        (
            "--set of a wrong unit",
            &[root, "--set", "timeouts.idle=3 bananas"],
            &["in `--set timeouts.idle=3 bananas`", "hint: "],
        ),
        (
            "--set below a value",
            &[root, "--set", "mptcp.on=true"],
            &["in `--set mptcp.on=true`"],
        ),
        (
            "--listen without a port",
            &[root, "--listen", "localhost"],
            &["--listen", "`localhost`", "the port is missing", ":8443"],
        ),
        (
            "--listen of a URL",
            &[root, "--listen", "https://localhost:443"],
            &["--listen", "it is a URL", "NAME:PORT"],
        ),
        (
            "--listen of IPv6 without brackets",
            &[root, "--listen", "::1:443"],
            &["--listen", "an IPv6 address stands in brackets"],
        ),
        (
            "a name that is none",
            &[root, "--listen", "nobody.invalid:0"],
            &["listening on TCP nobody.invalid:0", "lookup"],
        ),
        (
            "listen of a key",
            &[root, "--set", "listen=:99999"],
            &["in `--set listen=:99999`", "no number from 0 to 65535"],
        ),
        (
            "the admin page for all, by port",
            &[root, "--admin", ":0"],
            &["`admin.listen` is [::]:0", "set `admin.token`"],
        ),
        (
            "a share beyond its range",
            &[root, "--set", "policy.exploration=0.5"],
            &["exploration", "0.02"],
        ),
        ("cert without key", &[root, "--cert", &cert], &["--key"]),
        (
            "tls.cert without tls.key",
            &[root, "--set", "tls.cert=/tmp/a"],
            &["`tls.cert` and `tls.key` belong together: set both or none"],
        ),
        (
            "no such certificate",
            &[root, "--cert", &missing, "--key", &key],
            &[
                "reading the certificate from",
                &missing,
                "hint: check the path, or leave",
            ],
        ),
        (
            "no such key",
            &[root, "--cert", &cert, "--key", &missing],
            &[
                "reading the private key from",
                &missing,
                "hint: check the path",
            ],
        ),
        (
            "not a certificate",
            &[root, "--cert", &key, "--key", &key],
            &[
                "reading the certificate from",
                "no `BEGIN CERTIFICATE` in it",
            ],
        ),
        (
            "another certificate's key",
            &[root, "--cert", &cert, "--key", &other],
            &["using the key of", &other, "with its certificate"],
        ),
        (
            "a broken model",
            &[root, "--set", &model],
            &["reading the model", "model.json"],
        ),
        (
            "no such model",
            &[root, "--set", &no_model],
            &["reading the model", &missing, "No such file"],
        ),
        (
            "the admin page for all",
            &[root, "--admin", "0.0.0.0:0"],
            &[
                "`admin.listen` is 0.0.0.0:0",
                "set `admin.token`",
                "loopback",
            ],
        ),
        (
            "an access log nowhere",
            &[root, "--set", &access],
            &["opening the access log", &missing],
        ),
        (
            "a state directory that can't be",
            &[root, "--state", &no_dir],
            &["preparing the state directory", &no_dir],
        ),
        (
            "an address of others",
            &[root, "--listen", "192.0.2.1:0"],
            &[
                "listening on TCP 192.0.2.1:0",
                "hint: this machine does not have that address",
            ],
        ),
        (
            "a log level",
            &[root, "--set", "log.level=info=loud=very"],
            &["reading log.level `info=loud=very`", "expected error, warn"],
        ),
    ];
    for (name, args, words) in cases {
        let mut command = vec!["serve"];
        command.extend_from_slice(args);
        // After the case's own, if it has one.
        if !args.contains(&"--admin") {
            command.extend(["--admin", "127.0.0.1:0"]);
        }
        if !args.contains(&"--listen") {
            command.extend(["--listen", "127.0.0.1:0"]);
        }
        expect_failure(name, &hikyaku(&command), words);
    }
}

#[test]
fn ports_in_use_are_named_with_their_transport() {
    let site = Site::new(&[]);
    let hint = "hint: another program has this port (see `ss -tulpn`)";
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap().to_string();
    let output = hikyaku(&["serve", site.path(), "--listen", &address]);
    let what = format!("listening on TCP {address}");
    expect_failure("TCP", &output, &[&what, "Address already in use", hint]);

    // Another program may have the port of a number on TCP alone.
    let udp = eventually("a port that is free on TCP", || {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tcp = TcpListener::bind(udp.local_addr().unwrap());
        tcp.is_ok().then_some(udp)
    });
    let address = udp.local_addr().unwrap().to_string();
    let output = hikyaku(&["serve", site.path(), "--listen", &address]);
    let what = format!("listening on UDP {address}");
    expect_failure("UDP", &output, &[&what, "Address already in use", hint]);

    let admin = tcp.local_addr().unwrap().to_string();
    let args = [
        "serve",
        site.path(),
        "--listen",
        "127.0.0.1:0",
        "--admin",
        &admin,
    ];
    let what = format!("listening on the admin address {admin}");
    expect_failure("admin", &hikyaku(&args), &[&what, "Address already in use"]);
}

/// Runs `hikyaku serve` as nobody, without any capability.
fn as_nobody(test: &str, args: &[&str]) -> Option<Output> {
    if !rustix::process::geteuid().is_root() {
        skip(test, "only root can become somebody else");
        return None;
    }
    if !has(test, "setpriv") {
        return None;
    }
    // Other users may have no access to the build directory.
    let dir = open_dir();
    let copy = dir.path().join("hikyaku");
    // Another process makes the copy. If this process wrote it, children of other tests could
    // inherit the open file. A file that is open for writing cannot be executed.
    let copied = Command::new("cp").arg(binary()).arg(&copy).status();
    assert!(copied.unwrap().success());
    let output = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
        ])
        .arg(&copy)
        .arg("serve")
        .args(args)
        .output();
    Some(output.unwrap())
}

/// A directory that everybody may enter.
fn open_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

#[test]
fn a_privileged_port_needs_a_capability() {
    const TEST: &str = "a_privileged_port_needs_a_capability";
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    if first.trim().parse::<u16>().unwrap() <= 80 {
        return skip(TEST, "this machine gives port 80 to everybody");
    }
    let dir = open_dir();
    let root = dir.path().to_str().unwrap();
    let args = [root, "--listen", "127.0.0.1:80", "--admin", "127.0.0.1:0"];
    if let Some(output) = as_nobody(TEST, &args) {
        let words = [
            "listening on TCP 127.0.0.1:80",
            "Permission denied",
            "hint: ports below 1024 need the capability CAP_NET_BIND_SERVICE",
        ];
        expect_failure(TEST, &output, &words);
    }
}

#[test]
fn an_unreadable_key_is_reported() {
    const TEST: &str = "an_unreadable_key_is_reported";
    let dir = open_dir();
    let (certificate, private) = certificate();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    fs::write(&cert, certificate).unwrap();
    fs::write(&key, private).unwrap();
    fs::set_permissions(&cert, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let root = dir.path().to_str().unwrap();
    let args = [
        root,
        "--listen",
        "127.0.0.1:0",
        "--cert",
        &cert,
        "--key",
        &key,
    ];
    if let Some(output) = as_nobody(TEST, &args) {
        let words = [
            "reading the private key from",
            &key,
            "Permission denied",
            "hint: the user that hikyaku runs as must be able to read the file",
        ];
        expect_failure(TEST, &output, &words);
    }
}

#[test]
fn the_admin_api_is_closed_to_others() {
    let site = Site::new(&[("index.html", b"start")]);
    let open = Server::start(&[site.path()]);
    let token = Server::start(&[site.path(), "--set", "admin.token=s3cret"]);
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let cases = [
        ("loopback", &open, "/metrics", String::new(), 200),
        (
            "by name",
            &open,
            "/metrics",
            "Host: localhost\r\n".to_owned(),
            200,
        ),
        (
            "DNS rebinding",
            &open,
            "/metrics",
            "Host: evil.example\r\n".to_owned(),
            403,
        ),
        (
            "another site's page",
            &open,
            "/v1/clients",
            "Origin: https://evil.example\r\n".to_owned(),
            403,
        ),
        ("no token", &token, "/metrics", String::new(), 401),
        ("no token, health", &token, "/healthz", String::new(), 401),
        ("wrong token", &token, "/metrics", bearer("s3crex"), 401),
        ("part of it", &token, "/metrics", bearer("s3c"), 401),
        ("the token", &token, "/metrics", bearer("s3cret"), 200),
    ];
    for (name, server, path, headers, want) in cases {
        let (status, body) = plain_http(server.admin, "GET", path, &headers, "");
        assert_eq!(status, want, "{name}: {body}");
    }
    let (status, _) = plain_http(
        open.admin,
        "POST",
        "/v1/forget",
        "Origin: https://evil.example\r\n",
        "{\"all\":true}",
    );
    assert_eq!(status, 403);
    let (status, _) = plain_http(open.admin, "GET", "/v1/forget", "", "");
    assert_eq!(status, 405);
}

#[test]
fn explain_says_why_it_can_not() {
    let site = Site::new(&[("index.html", b"start")]);
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let output = hikyaku(&["explain", "192.0.2.1", "--admin", &nobody]);
    let words = [
        "asking the admin API at",
        &nobody,
        "is the server running there?",
        "--admin",
    ];
    expect_failure("nobody there", &output, &words);

    let server = Server::start(&[site.path(), "--set", "admin.token=s3cret"]);
    let admin = server.admin.to_string();
    let output = hikyaku(&["explain", "192.0.2.1", "--admin", &admin]);
    expect_failure("no token", &output, &["401", "admin.token"]);
    let output = hikyaku(&[
        "explain",
        "192.0.2.1",
        "--admin",
        &admin,
        "--token",
        "s3cret",
    ]);
    assert!(output.status.success(), "{output:?}");
    let output = hikyaku(&["explain", "not-an-address"]);
    expect_failure(
        "no address",
        &output,
        &["not-an-address", "expected an IPv4 or IPv6 address"],
    );
    let output = hikyaku(&["explain", "192.0.2.0/24", "--admin", &admin]);
    expect_failure("a prefix", &output, &["192.0.2.0/24", "--qlog"]);
}

#[test]
fn a_trace_says_why_it_can_not_be_taken() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    let admin = server.admin.to_string();
    let unwritable = "--qlog=/nowhere/trace.sqlog";
    // The options, and the words of the error.
    let cases: [(&[&str], &[&str]); 6] = [
        (&[unwritable], &["creating /nowhere/trace.sqlog", "No such"]),
        (
            &["--qlog", "--for", "11m"],
            &["duration=11m", "600s at most"],
        ),
        (
            &["--qlog", "--for", "soon"],
            &["--for", "expected a number"],
        ),
        (
            &["--qlog", "--max-size", "2GiB"],
            &["size=", "1GiB at most"],
        ),
        (
            &["--qlog", "--connections", "0"],
            &["--connections", "1..=1000"],
        ),
        (
            &["--qlog", "--for", "100ms"],
            &["no QUIC connection of 127.0.0.1 began within 100ms"],
        ),
    ];
    for (options, words) in cases {
        let arguments = [&["explain", "127.0.0.1", "--admin", &admin], options].concat();
        expect_failure(&options.join(" "), &hikyaku(&arguments), words);
    }
    let kept = Path::new(site.path()).join("kept.sqlog");
    site.write("kept.sqlog", b"of yesterday");
    let option = format!("--qlog={}", kept.display());
    let output = hikyaku(&[
        "explain",
        "127.0.0.1",
        "--admin",
        &admin,
        &option,
        "--for",
        "11m",
    ]);
    expect_failure("refused", &output, &["600s at most"]);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "of yesterday");
    let output = hikyaku(&["explain", "127.0.0.1", "--for", "1s"]);
    expect_failure("without --qlog", &output, &["--qlog"]);
}

#[test]
fn get_says_why_it_can_not() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    let url = server.url("/");
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("https://{}/", listener.local_addr().unwrap())
    };
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("untrusted", &[&url], &["error: ", "hint: ", "--cacert"]),
        (
            "nobody there",
            &["--insecure", &nobody],
            &["connecting to", "refused"],
        ),
        ("no URL", &["--insecure", "not a url"], &["not a url"]),
    ];
    for (name, args, words) in cases {
        let mut output = hikyaku(&[&["get"], *args].concat());
        // Failures of a request belong to its report.
        let report = output.stdout.clone();
        output.stderr.extend(report);
        expect_failure(name, &output, words);
    }
    assert_eq!(get(&[&url])[0]["status"], 200);
}

#[test]
fn write_cert_writes_a_certificate_that_clients_trust() {
    let site = Site::new(&[("index.html", b"start")]);
    let dir = tempfile::tempdir().unwrap();
    let cert = dir.path().join("cert.pem");
    let cert = cert.to_str().unwrap();
    let args = [
        site.path(),
        "--write-cert",
        cert,
        "--set",
        "tls.names=[\"a.test\"]",
    ];
    let server = Server::start(&args);
    assert!(Path::new(cert).is_file());
    for name in ["localhost", "a.test", "127.0.0.1"] {
        let url = format!("https://{name}:{}/", server.port());
        let to = format!("{name}:{}:127.0.0.1", server.port());
        let mut args = vec!["get", "--fail", "--cacert", cert, &url];
        if name != "127.0.0.1" {
            args.extend(["--resolve", &to]);
        }
        let output = hikyaku(&args);
        assert!(output.status.success(), "{name}: {output:?}");
    }
}

//! A PHP site by nginx and php-fpm: `php.toml` and `php.nginx.conf`.

use std::fs;
use std::path::Path;
use std::process::Command;

use hikyaku_testkit::daemon::Daemon;
use hikyaku_testkit::fetch::{Http, curl, fetch, send};
use hikyaku_testkit::machine::Machine;
use hikyaku_testkit::{Server, has, noise, this_test};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{HERE, port};

const UPSTREAM: &str = "http://127.0.0.1:8080";
/// Debian 12's.
const FPM: &str = "/usr/sbin/php-fpm8.2";

/// The PHP site behind hikyaku.
struct Php {
    server: Server,
    machine: Machine,
    _nginx: Daemon,
    _fpm: Daemon,
}

impl Php {
    /// Reports a skip, and returns nothing, where a program is missing.
    fn start() -> Option<Self> {
        let test = this_test();
        if !["nginx", FPM, "curl"].iter().all(|name| has(&test, name)) {
            return None;
        }
        let machine = Machine::new(&[("srv/php/assets/a.css", b"css"), ("run/php/.keep", b"")]);
        copy(
            Path::new(HERE).join("php").as_path(),
            machine.path("srv/php").as_ref(),
        );
        let fpm = fpm(&machine);
        let (nginx, [address]) = Daemon::on_ports(|[port]| nginx(&machine, port));
        let upstream = port(UPSTREAM, address.port());
        let server = machine.start("php.toml", &[(UPSTREAM, &upstream)]);
        Some(Self {
            server,
            machine,
            _nginx: nginx,
            _fpm: fpm,
        })
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(fs::copy(&path, &to).unwrap()),
        }
    }
}

fn fpm(machine: &Machine) -> Daemon {
    let dir = machine.path("");
    // Of root alone it takes another user; the files are root's then.
    let user = match rustix::process::geteuid().is_root() {
        true => "user = root\n",
        false => "",
    };
    let config = format!(
        "[global]\nerror_log = {dir}log/fpm.log\n\
         [www]\n{user}listen = {dir}run/php/php-fpm.sock\npm = static\npm.max_children = 2\n\
         php_admin_value[session.save_path] = {dir}run\n\
         php_admin_value[upload_tmp_dir] = {dir}run\n\
         php_admin_value[upload_max_filesize] = 64M\nphp_admin_value[post_max_size] = 64M\n"
    );
    machine.write("fpm.conf", config.as_bytes());
    let mut command = Command::new(FPM);
    command.args(["-R", "-F", "-y", &machine.path("fpm.conf")]);
    Daemon::at_socket(command, machine.path("run/php/php-fpm.sock").as_ref())
}

fn nginx(machine: &Machine, port: u16) -> Command {
    let dir = machine.path("");
    let listen = format!("listen 127.0.0.1:{port};");
    let server = machine.example("php.nginx.conf", &[("listen 127.0.0.1:8080;", &listen)]);
    let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {dir}run/{kind};\n"))
        .collect();
    let config = format!(
        "daemon off; master_process off; pid {dir}run/nginx.pid; error_log stderr;\n\
         events {{}}\nhttp {{\naccess_log off;\n{temp}{server}}}\n"
    );
    machine.write("nginx.conf", config.as_bytes());
    let mut command = Command::new("nginx");
    command.args(["-e", "stderr", "-c", &machine.path("nginx.conf")]);
    command
}

#[test]
fn php_sees_the_clients_scheme_host_and_address() {
    let Some(php) = Php::start() else { return };
    let server = &php.server;
    for http in Http::ALL {
        let host = format!("localhost:{}", server.port());
        let fields = [
            &*format!("host: {host}"),
            // Nobody's word counts but that of hikyaku.
            "x-forwarded-for: 198.51.100.7",
            "x-forwarded-proto: http",
            "x-forwarded-host: other.example",
            "x-real-ip: 198.51.100.7",
        ];
        let seen = fetch(http, server, "/seen.php?a=1", &fields);
        assert_eq!(seen.header("x-powered-by"), None, "{http:?}");
        let got: Value = serde_json::from_slice(&seen.body).unwrap();
        let want = json!({
            "REMOTE_ADDR": "127.0.0.1", "HTTPS": "on", "REQUEST_SCHEME": "https",
            "SERVER_PORT": server.port().to_string(), "HTTP_HOST": host,
            "REQUEST_METHOD": "GET", "REQUEST_URI": "/seen.php?a=1",
            "HTTP_X_FORWARDED_FOR": "127.0.0.1", "HTTP_X_FORWARDED_PROTO": "https",
            "HTTP_X_FORWARDED_HOST": host, "HTTP_X_REAL_IP": "127.0.0.1",
        });
        assert_eq!(got, want, "{http:?}");
    }
}

#[test]
fn pages_assets_and_redirects() {
    let Some(php) = Php::start() else { return };
    let server = &php.server;
    for http in Http::ALL {
        let page = fetch(http, server, "/", &["accept-encoding: br"]);
        assert_eq!(page.status, 200, "{http:?}");
        assert_eq!(page.header("content-encoding"), Some("br"), "{http:?}");
        let none = fetch(http, server, "/none", &[]);
        assert_eq!(none.status, 404, "{http:?}");
        assert!(none.text().contains("<title>/none</title>"));
        let missing = fetch(http, server, "/none.php", &[]);
        assert_eq!(missing.status, 404, "{http:?}");
        let asset = fetch(http, server, "/assets/a.css", &[]);
        assert_eq!((asset.status, asset.text()), (200, "css"), "{http:?}");
        // nginx's own redirect names neither its port nor its scheme.
        let directory = fetch(http, server, "/shop", &[]);
        assert_eq!(directory.status, 301, "{http:?}");
        assert_eq!(directory.header("location"), Some("/shop/"), "{http:?}");
        assert_eq!(fetch(http, server, "/shop/", &[]).text(), "shop");
    }
}

#[test]
fn a_form_begins_a_session() {
    let Some(php) = Php::start() else { return };
    let url = php.server.url("/login.php");
    let jar = php.machine.path("jar");
    for version in ["--http1.1", "--http2"] {
        // curl keeps the cookie, which is for https alone, and follows the redirect.
        let args = [
            version,
            "-L",
            "-c",
            &jar,
            "-w",
            "\n%{http_code} %{url_effective}",
        ];
        let output = curl(&[&args[..], &["--data-urlencode", "name=Ada & Co", &url]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let account = php.server.url("/account.php");
        assert_eq!(text, format!("Ada & Co\n200 {account}"), "{version}");
        let cookies = fs::read_to_string(&jar).unwrap();
        let session = cookies.lines().find(|line| line.contains("PHPSESSID"));
        let session: Vec<_> = session.unwrap().split('\t').collect();
        assert!(session[0].starts_with("#HttpOnly_"), "{session:?}");
        assert_eq!(session[3], "TRUE", "secure: {session:?}");
        let again = curl(&[version, "-b", &jar, &account]);
        assert_eq!(again.stdout, b"Ada & Co", "{version}");
    }
    let stranger = fetch(Http::H3, &php.server, "/account.php", &[]);
    assert_eq!((stranger.status, stranger.text()), (401, "nobody"));
}

#[test]
fn uploads_arrive_whole() {
    let Some(php) = Php::start() else { return };
    let content = noise(5_000_000);
    php.machine.write("photo.jpg", &content);
    let hash: String = Sha256::digest(&content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let form = format!("file=@{}", php.machine.path("photo.jpg"));
    for version in ["--http1.1", "--http2"] {
        let sent = curl(&[version, "-F", &form, &php.server.url("/upload.php")]);
        let text = String::from_utf8(sent.stdout).unwrap();
        assert_eq!(text, format!("photo.jpg 5000000 {hash}"), "{version}");
        // Other pages take less.
        let args = [version, "-o", "/dev/null", "-w", "%{http_code}", "-F"];
        let sent = curl(&[&args[..], &[&form, &php.server.url("/seen.php")]].concat());
        assert_eq!(sent.stdout, b"413", "{version}");
    }
    let multipart = "content-type: multipart/form-data; boundary=b";
    let mut body =
        b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"photo.jpg\"\r\n\r\n"
            .to_vec();
    body.extend_from_slice(&content);
    body.extend_from_slice(b"\r\n--b--\r\n");
    let sent = send(
        Http::H3,
        &php.server,
        "POST",
        "/upload.php",
        &[multipart],
        &body,
    );
    assert_eq!(sent.text(), format!("photo.jpg 5000000 {hash}"));
}

//! OCSP stapling, with responses and a client of openssl.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use hikyaku_testkit::ocsp::{Authority, Issued, Responder, Signer};
use hikyaku_testkit::{Server, Site, eventually, has, hikyaku, this_test};
use rustix::process::Signal;

/// A server whose certificate names a responder, or none that is there.
struct Ground {
    site: Site,
    authority: Arc<Authority>,
    responder: Responder,
}

impl Ground {
    /// `None` without openssl.
    fn new() -> Option<Self> {
        if !has(&this_test(), "openssl") {
            return None;
        }
        let authority = Arc::new(Authority::new());
        let ground = Self {
            site: Site::new(&[("www/index.html", b"page")]),
            responder: Responder::start(answering(&authority, Signer::Issuer)),
            authority,
        };
        let issued = ground.authority.certificate(&ground.responder.url(), false);
        ground.write(&issued);
        Some(ground)
    }

    fn write(&self, issued: &Issued) {
        self.site.write("cert.pem", issued.cert.as_bytes());
        self.site.write("key.pem", issued.key.as_bytes());
    }

    fn start(&self, more: &[&str]) -> Server {
        let dir = self.site.path();
        let (root, cert) = (format!("{dir}/www"), format!("{dir}/cert.pem"));
        let (key, state) = (format!("{dir}/key.pem"), format!("{dir}/state"));
        let args = [&root, "--cert", &cert, "--key", &key, "--state", &state];
        Server::start(&[&args, more].concat())
    }

    /// The words of `openssl s_client -status` about the response.
    fn status(&self, server: &Server) -> String {
        let mut child = Command::new("openssl")
            .args(["s_client", "-status", "-servername", "localhost", "-CAfile"])
            .arg(self.authority.file())
            .args(["-connect", &server.address().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"Q\n").unwrap();
        let output = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn is_stapled(&self, server: &Server) -> bool {
        let status = self.status(server);
        let is_good = status.contains("OCSP Response Status: successful")
            && status.contains("Cert Status: good");
        assert_ne!(
            is_good,
            status.contains("OCSP response: no response sent"),
            "{status}"
        );
        is_good
    }
}

fn answering(
    authority: &Arc<Authority>,
    signer: Signer,
) -> impl Fn(&[u8]) -> Vec<u8> + Send + use<> {
    let authority = Arc::clone(authority);
    move |request| authority.respond(request, signer, 120)
}

/// The certificate's standing, as the admin API has it.
fn report(server: &Server) -> serde_json::Value {
    server.admin_json("/v1/certificates")[0]["certificates"][0]["ocsp"].clone()
}

#[test]
fn a_good_certificate_comes_with_the_response_also_after_a_restart() {
    let Some(ground) = Ground::new() else { return };
    ground
        .responder
        .set(answering(&ground.authority, Signer::Delegate));
    let server = ground.start(&[]);
    eventually("a response", || ground.is_stapled(&server).then_some(()));
    let report = report(&server);
    assert_eq!(report["state"], "good", "{report}");
    assert_eq!(report["responder"], ground.responder.url(), "{report}");
    let time = |key: &str| report[key].as_i64().unwrap();
    assert_eq!(time("next_update") - time("this_update"), 7200);
    let half = time("next_request") - time("this_update");
    assert_eq!(half, 3600, "{report}");
    assert_eq!(
        server.metric("hikyaku_ocsp_requests_total{result=\"good\"}"),
        1.0
    );
    let expires = "hikyaku_ocsp_next_update_seconds{certificate=\"localhost\",key=\"ecdsa\"}";
    assert!(server.metric(expires) > 1e9);
    let certs = hikyaku(&["certs", "--admin", &server.admin.to_string()]);
    let table = String::from_utf8(certs.stdout).unwrap();
    assert!(table.contains("good, ends in "), "{table}");

    // A change of the configuration keeps it.
    server.signal(Signal::HUP);
    server.wait_metric("hikyaku_reloads_total{}", 1.0);
    assert!(ground.is_stapled(&server));
    drop(server);
    let before = ground.responder.requests();
    let server = ground.start(&[]);
    eventually("the kept response", || {
        ground.is_stapled(&server).then_some(())
    });
    assert_eq!(ground.responder.requests(), before, "nobody is asked again");
    drop(server);

    let off = ground.start(&["--set", "tls.ocsp=false"]);
    assert!(!ground.is_stapled(&off));
}

#[test]
fn nothing_is_stapled_that_is_not_good() {
    let Some(ground) = Ground::new() else { return };
    let authority = Arc::clone(&ground.authority);
    type Case = (&'static str, Box<dyn Fn(&Ground)>, &'static str);
    let signed = |signer| -> Box<dyn Fn(&Ground)> {
        Box::new(move |ground| ground.responder.set(answering(&ground.authority, signer)))
    };
    let garbage: Box<dyn Fn(&Ground)> =
        Box::new(|ground| ground.responder.set(|_| b"<html>".into()));
    let revoked: Box<dyn Fn(&Ground)> = Box::new(move |ground| {
        authority.set_standing("R");
        ground
            .responder
            .set(answering(&ground.authority, Signer::Issuer));
    });
    let cases: [Case; 4] = [
        ("garbage", garbage, "the response is no DER of OCSP"),
        (
            "another authority",
            signed(Signer::Stranger),
            "is signed neither by",
        ),
        (
            "no responder",
            signed(Signer::Undelegated),
            "is signed neither by",
        ),
        ("revoked", revoked, "is revoked by its issuer"),
    ];
    for (name, prepare, want) in cases {
        prepare(&ground);
        let server = ground.start(&[]);
        let log = server.wait_log(want);
        assert!(
            log.contains("the certificate for localhost"),
            "{name}: {log}"
        );
        assert!(!ground.is_stapled(&server), "{name}");
    }
}

#[test]
fn a_responder_that_is_not_there_delays_no_handshake() {
    let Some(ground) = Ground::new() else { return };
    // Nobody listens on it.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", free.local_addr().unwrap());
    drop(free);
    ground.write(&ground.authority.certificate(&url, true));
    let server = ground.start(&[]);
    let log = server.wait_log("must come with an OCSP response, and has none");
    assert!(log.contains("connecting: "), "{log}");
    assert!(!ground.is_stapled(&server));
    let report = report(&server);
    assert_eq!(report["state"], "none", "{report}");
    assert_eq!(report["must_staple"], true, "{report}");
    assert!(
        report["error"].as_str().unwrap().contains("connecting"),
        "{report}"
    );
    assert_eq!(
        server.metric("hikyaku_ocsp_requests_total{result=\"failed\"}"),
        1.0
    );

    // Another certificate takes its place, and its responder is there.
    ground.write(&ground.authority.certificate(&ground.responder.url(), true));
    server.signal(Signal::HUP);
    eventually("a response", || ground.is_stapled(&server).then_some(()));
}

#[test]
fn check_warns_of_certificates_that_never_have_a_response() {
    let Some(ground) = Ground::new() else { return };
    let dir = ground.site.path();
    let check = |more: &[&str]| {
        let (root, cert, key) = (
            format!("{dir}/www"),
            format!("{dir}/cert.pem"),
            format!("{dir}/key.pem"),
        );
        let args = [
            "check",
            &root,
            "--listen",
            "127.0.0.1:0",
            "--cert",
            &cert,
            "--key",
            &key,
        ];
        String::from_utf8(hikyaku(&[&args, more].concat()).stderr).unwrap()
    };
    let want = "must come with an OCSP response, and never has one";
    ground.write(&ground.authority.certificate(&ground.responder.url(), true));
    assert!(!check(&[]).contains(want));
    let off = check(&["--set", "tls.ocsp=false"]);
    assert!(
        off.contains(want) && off.contains("`tls.ocsp` is false"),
        "{off}"
    );
    ground.write(&ground.authority.certificate("", true));
    let without = check(&[]);
    assert!(
        without.contains(want) && without.contains("names no OCSP responder"),
        "{without}"
    );
}

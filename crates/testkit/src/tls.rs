//! TLS between a server and a client of a test.

use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::Server;

/// The settings of a server named `localhost`, and of clients that trust its certificate.
pub fn pair() -> (ServerConfig, ClientConfig) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = certified.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (server, client)
}

/// The line of `openssl s_client` that shows whether the session was resumed. `sessions` has its options for
/// that: `["-sess_out", FILE]` or `["-sess_in", FILE]`.
#[track_caller]
pub fn s_client(server: &Server, version: &str, sessions: [&str; 2]) -> String {
    // It ends with its input. Before that, it reads the tickets that follow the answer.
    let script = format!(
        "(printf 'GET / HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n'; sleep 0.5) | \
         openssl s_client -connect {} -servername localhost {version} -alpn http/1.1 {} {} 2>&1",
        server.address(),
        sessions[0],
        sessions[1],
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let kinds = text.lines().filter(|line| line.contains(", Cipher is"));
    kinds.collect::<Vec<_>>().join("\n")
}

//! An authority whose certificates name an OCSP responder, with responses by openssl.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, SerialNumber,
};
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;

/// Who signs a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// The authority itself.
    Issuer,
    /// A responder that it has named.
    Delegate,
    /// Another certificate of it, which may not.
    Undelegated,
    /// Another authority.
    Stranger,
}

/// An authority.
pub struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

/// A certificate for localhost and its key.
pub struct Issued {
    /// With that of the authority.
    pub chain: Vec<CertificateDer<'static>>,
    pub cert: String,
    pub key: String,
}

/// The serial number of all certificates for localhost.
const SERIAL: &[u8] = &[0x2a, 0x01];

impl Authority {
    /// # Panics
    /// When it can't be made.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (issuer, certificate, pem) = root("Root", dir.path(), "issuer");
        for (name, usage) in [
            ("delegate", ExtendedKeyUsagePurpose::OcspSigning),
            ("undelegated", ExtendedKeyUsagePurpose::ServerAuth),
        ] {
            let mut params = CertificateParams::new(vec![format!("{name}.example")]).unwrap();
            params.extended_key_usages = vec![usage];
            let key = KeyPair::generate().unwrap();
            let made = params.signed_by(&key, &issuer).unwrap();
            write(dir.path(), name, &made.pem(), &key);
        }
        root("Stranger", dir.path(), "stranger");
        let authority = Self {
            dir,
            issuer,
            certificate,
            pem,
        };
        authority.set_standing("V");
        authority
    }

    /// Issues a certificate whose responder is at `url`; none for an empty one.
    ///
    /// # Panics
    /// When it can't be made.
    pub fn certificate(&self, url: &str, must_staple: bool) -> Issued {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(SERIAL.to_vec()));
        if !url.is_empty() {
            // authorityInfoAccess with id-ad-ocsp and a URL.
            let method = [6, 8, 0x2b, 6, 1, 5, 5, 7, 0x30, 1];
            let url = [&[0x86, url.len() as u8], url.as_bytes()].concat();
            let one = [&method[..], &url].concat();
            let one = [&[0x30, one.len() as u8], &one[..]].concat();
            let content = [&[0x30, one.len() as u8], &one[..]].concat();
            let oid = [1, 3, 6, 1, 5, 5, 7, 1, 1];
            let access = CustomExtension::from_oid_content(&oid, content);
            params.custom_extensions.push(access);
        }
        if must_staple {
            let oid = [1, 3, 6, 1, 5, 5, 7, 1, 24];
            let feature = CustomExtension::from_oid_content(&oid, vec![0x30, 3, 2, 1, 5]);
            params.custom_extensions.push(feature);
        }
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &self.issuer).unwrap();
        Issued {
            chain: vec![made.der().clone(), self.certificate.clone()],
            cert: made.pem() + &self.pem,
            key: key.serialize_pem(),
        }
    }

    /// The file of the authority's certificate.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("issuer.pem")
    }

    /// Sets the standing of the certificates: `V` for good, `R` for revoked, and empty for unknown.
    ///
    /// # Panics
    /// When it can't be written.
    pub fn set_standing(&self, standing: &str) {
        let revoked = if standing == "R" { "250101000000Z" } else { "" };
        let line = match standing {
            "" => String::new(),
            _ => format!("{standing}\t490101000000Z\t{revoked}\t2A01\tunknown\t/CN=localhost\n"),
        };
        fs::write(self.dir.path().join("index.txt"), line).unwrap();
    }

    /// The response of openssl to a request, which holds for some minutes; with 0 it does not say for how long.
    ///
    /// # Panics
    /// When openssl fails.
    pub fn respond(&self, request: &[u8], signer: Signer, minutes: u32) -> Vec<u8> {
        let dir = self.dir.path();
        let name = match signer {
            Signer::Issuer => "issuer",
            Signer::Delegate => "delegate",
            Signer::Undelegated => "undelegated",
            Signer::Stranger => "stranger",
        };
        let files = tempfile::tempdir().unwrap();
        let (asked, answered) = (files.path().join("req"), files.path().join("resp"));
        fs::write(&asked, request).unwrap();
        let mut command = Command::new("openssl");
        command.arg("ocsp");
        if minutes > 0 {
            command.args(["-nmin", &minutes.to_string()]);
        }
        let output = command
            .arg("-reqin")
            .arg(asked)
            .arg("-respout")
            .arg(&answered)
            .arg("-index")
            .arg(dir.join("index.txt"))
            .arg("-CA")
            .arg(self.file())
            .arg("-rsigner")
            .arg(dir.join(name).with_extension("pem"))
            .arg("-rkey")
            .arg(dir.join(name).with_extension("key"))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        fs::read(answered).unwrap_or_else(|error| panic!("{error}: {errors}"))
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

fn root(
    name: &str,
    dir: &Path,
    file: &str,
) -> (Issuer<'static, KeyPair>, CertificateDer<'static>, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let made = params.self_signed(&key).unwrap();
    write(dir, file, &made.pem(), &key);
    let (der, pem) = (made.der().clone(), made.pem());
    (Issuer::new(params, key), der, pem)
}

fn write(dir: &Path, name: &str, cert: &str, key: &KeyPair) {
    fs::write(dir.join(name).with_extension("pem"), cert).unwrap();
    fs::write(dir.join(name).with_extension("key"), key.serialize_pem()).unwrap();
}

type Answering = Box<dyn Fn(&[u8]) -> Vec<u8> + Send>;

/// A responder on loopback.
pub struct Responder {
    address: SocketAddr,
    answering: Arc<Mutex<Answering>>,
    requests: Arc<Mutex<usize>>,
}

impl Responder {
    /// Starts one that ends with the process. It answers requests so.
    ///
    /// # Panics
    /// When no port is free.
    pub fn start(answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let responder = Self {
            address: listener.local_addr().unwrap(),
            answering: Arc::new(Mutex::new(Box::new(answer))),
            requests: Arc::default(),
        };
        let (answering, requests) = (
            Arc::clone(&responder.answering),
            Arc::clone(&responder.requests),
        );
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // Connections that end early are part of the tests.
                let _ = serve(stream, &answering);
                *requests.lock().unwrap() += 1;
            }
        });
        responder
    }

    /// URL for certificates.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Answers differently from now on.
    ///
    /// # Panics
    /// After a panic of another thread.
    pub fn set(&self, answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) {
        *self.answering.lock().unwrap() = Box::new(answer);
    }

    /// Requests so far.
    ///
    /// # Panics
    /// After a panic of another thread.
    pub fn requests(&self) -> usize {
        *self.requests.lock().unwrap()
    }
}

fn serve(mut stream: TcpStream, answering: &Mutex<Answering>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    assert!(head.starts_with("post / http/1.1\r\n"), "{head}");
    assert!(
        head.contains("content-type: application/ocsp-request\r\n"),
        "{head}"
    );
    let length = head.split("content-length: ").nth(1).unwrap_or("0");
    let length = length.lines().next().unwrap_or("0").parse().unwrap_or(0);
    let mut request = vec![0; length];
    stream.read_exact(&mut request)?;
    let response = (answering.lock().unwrap())(&request);
    let length = response.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), &response].concat())
}

//! Answers, fetched by curl.

use std::collections::BTreeMap;
use std::fs;

use hikyaku_testkit::fetch::curl;
use hikyaku_testkit::machine::Machine;

use crate::Addresses;
use crate::requests::Request;

/// An answer as a client understands it: content without its coding, `Location` as a whole URL.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Values by lower-case name; several of a name are joined by commas.
    pub(crate) fields: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Makes a request of a server, on a connection of its own.
    pub(crate) fn of(machine: &Machine, server: Addresses, request: &Request) -> Self {
        let [head, body] = ["head", "body"].map(|name| machine.path(name));
        let _ = fs::remove_file(&body);
        let mut args = arguments(machine, server, request);
        for arg in ["-D", &head, "-o", &body, "-w", "%{redirect_url}"] {
            args.push(arg.to_owned());
        }
        let output = curl(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let location = String::from_utf8(output.stdout).unwrap();
        let head = fs::read_to_string(&head).unwrap();
        let body = match &*request.method {
            "HEAD" => Vec::new(),
            _ => fs::read(&body).unwrap_or_default(),
        };
        let mut answer = Self::parse(&head, body);
        if answer.fields.contains_key("location") {
            let location = without_port(&location);
            answer.fields.insert("location".to_owned(), location);
        }
        answer
    }

    /// Parses the last head section, after those of interim responses.
    fn parse(text: &str, body: Vec<u8>) -> Self {
        let start = text.rfind("\r\n\r\nHTTP/").map_or(0, |end| end + 4);
        let mut lines = text[start..].lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let mut fields = BTreeMap::<String, String>::new();
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            fields
                .entry(name.to_ascii_lowercase())
                .and_modify(|all| *all = format!("{all}, {value}"))
                .or_insert_with(|| value.to_owned());
        }
        Self {
            status: status.unwrap_or("0").parse().unwrap(),
            fields,
            body,
        }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

/// The arguments of curl for a request.
fn arguments(machine: &Machine, server: Addresses, request: &Request) -> Vec<String> {
    let address = match &*request.scheme {
        "https" => server.https,
        _ => server.http,
    };
    let (host, port) = (&request.host, address.port());
    let mut args = Vec::<String>::new();
    let mut add = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
    add(&[&format!(
        "{}://{host}:{port}{}",
        request.scheme, request.path
    )]);
    add(&[
        "--resolve",
        &format!("{host}:{port}:127.0.0.1"),
        "--path-as-is",
    ]);
    // As on the ports that the configurations name.
    add(&["-H", &format!("host: {host}")]);
    // The list has its own.
    add(&["--compressed", "-H", "accept-encoding:"]);
    for field in &request.fields {
        add(&["-H", field]);
    }
    match &*request.method {
        "HEAD" => add(&["--head"]),
        method => add(&["--request", method]),
    }
    // WebSocket's handshake is one of HTTP/1.1.
    if request
        .fields
        .iter()
        .any(|field| field.starts_with("Upgrade:"))
    {
        add(&["--http1.1"]);
    }
    if let Some(size) = request.body {
        machine.write("sent", &vec![b'x'; size]);
        let data = format!("@{}", machine.path("sent"));
        add(&[
            "-H",
            "expect:",
            "-H",
            "content-type: text/x",
            "--data-binary",
            &data,
        ]);
    }
    args
}

/// A URL without the port of its host, which is the test's.
fn without_port(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.split(':').next().unwrap();
    format!("{scheme}://{host}/{path}")
}

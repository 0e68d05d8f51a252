//! Lists of requests.
//!
//! A line is `METHOD URL`, and then fields after bars. `| body 100` sends that many bytes, and `|
//! differs: a, b` names the parts of the answer that differ. Names after `everywhere:` may differ in
//! any answer.

use std::collections::BTreeSet;
use std::fs;

/// A request of a list.
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) method: String,
    pub(crate) scheme: String,
    pub(crate) host: String,
    /// With the query.
    pub(crate) path: String,
    pub(crate) fields: Vec<String>,
    pub(crate) body: Option<usize>,
    pub(crate) differs: BTreeSet<String>,
}

/// A list of requests.
pub(crate) struct Requests {
    pub(crate) everywhere: BTreeSet<String>,
    pub(crate) requests: Vec<Request>,
}

impl Requests {
    /// Reads a file beside this one.
    pub(crate) fn read(name: &str) -> Self {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/migrate");
        let text = fs::read_to_string(format!("{dir}/{name}.requests")).unwrap();
        let mut list = Self {
            everywhere: BTreeSet::new(),
            requests: Vec::new(),
        };
        for line in text.lines().map(str::trim) {
            if let Some(names) = line.strip_prefix("everywhere:") {
                list.everywhere.extend(split(names));
            } else if !line.is_empty() && !line.starts_with('#') {
                list.requests.push(Request::parse(line));
            }
        }
        list
    }
}

impl Request {
    fn parse(line: &str) -> Self {
        let mut parts = line.split('|').map(str::trim);
        let (method, url) = parts.next().unwrap().split_once(' ').unwrap();
        let (scheme, rest) = url.split_once("://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        let mut request = Self {
            line: line.to_owned(),
            method: method.to_owned(),
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            path: format!("/{path}"),
            fields: Vec::new(),
            body: None,
            differs: BTreeSet::new(),
        };
        for part in parts {
            if let Some(names) = part.strip_prefix("differs:") {
                request.differs = split(names).collect();
            } else if let Some(size) = part.strip_prefix("body ") {
                request.body = Some(size.parse().unwrap());
            } else {
                request.fields.push(part.to_owned());
            }
        }
        request
    }
}

fn split(names: &str) -> impl Iterator<Item = String> {
    names.split(',').map(|name| name.trim().to_owned())
}

//! Changes of a message's header fields.

use std::collections::{BTreeMap, BTreeSet};

use http::HeaderMap;
use http::header::{self, HeaderName, HeaderValue};
use serde::Deserialize;

use super::variables::{Facts, FieldValue, Needs};
use crate::proxy::is_written_by_proxy;

/// `Server` of responses, where nothing names another.
pub const SERVER: HeaderValue = HeaderValue::from_static("hikyaku");

/// Marks a response without `Server`, which the operator has taken away.
#[derive(Clone, Copy, Debug)]
pub struct NoServer;

/// Changes of header fields (`request_headers` and `response_headers` of the configuration).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HeadersConfig {
    /// Fields that replace those of the same name. Values may have variables, such as `$client`
    /// (`docs/sites.md`). Default: none.
    pub set: BTreeMap<String, String>,
    /// Fields that are added to those of the same name, in the same way. Default: none.
    pub add: BTreeMap<String, String>,
    /// Names of fields that are taken away. Default: none.
    pub remove: Vec<String>,
}

impl HeadersConfig {
    /// Takes over the changes of `outer`, but for the fields that these ones name themselves.
    pub fn inherit(&mut self, outer: &Self) {
        let named = self.set.keys().chain(self.add.keys()).chain(&self.remove);
        let named: BTreeSet<String> = named.map(|name| name.to_ascii_lowercase()).collect();
        let is_left = |name: &String| !named.contains(&name.to_ascii_lowercase());
        let fields = |of: &BTreeMap<String, String>| {
            let left = of.iter().filter(|(name, _)| is_left(name));
            left.map(|(name, value)| (name.clone(), value.clone()))
                .collect::<Vec<_>>()
        };
        self.set.extend(fields(&outer.set));
        self.add.extend(fields(&outer.add));
        let removed = outer.remove.iter().filter(|name| is_left(name)).cloned();
        self.remove.extend(removed.collect::<Vec<_>>());
    }

    /// The `Server` of responses that no site makes, by the changes of the server: the one that is set, or
    /// [`SERVER`]; `None` where it is taken away.
    pub fn server(&self) -> Option<HeaderValue> {
        let is_server = |name: &String| name.eq_ignore_ascii_case(header::SERVER.as_str());
        if self.remove.iter().any(is_server) {
            return None;
        }
        let set = self.set.iter().find(|(name, _)| is_server(name));
        let value = set.and_then(|(_, value)| FieldValue::parse(value).ok()?.of(None));
        Some(value.unwrap_or(SERVER))
    }
}

/// The messages that are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Messages {
    Requests,
    Responses,
}

/// Changes of header fields, ready to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeaderRules {
    remove: Vec<HeaderName>,
    set: Vec<(HeaderName, FieldValue)>,
    add: Vec<(HeaderName, FieldValue)>,
    needs: Needs,
    removes_server: bool,
}

impl HeaderRules {
    /// Reads the changes of such messages.
    ///
    /// # Errors
    /// If a name or value is malformed, if the field is the server's own, or if it is both set and
    /// removed. The error is a sentence.
    pub(crate) fn new(of: Messages, config: &HeadersConfig) -> Result<Self, String> {
        let remove: Vec<_> = config
            .remove
            .iter()
            .map(|name| name_of(of, name))
            .collect::<Result<_, _>>()?;
        let set = fields_of(of, &config.set)?;
        let add = fields_of(of, &config.add)?;
        if let Some((name, _)) = set.iter().find(|(name, _)| remove.contains(name)) {
            return Err(format!("`{}` both sets and removes `{name}`", of.key()));
        }
        let values = set.iter().chain(&add).map(|(_, value)| value.needs());
        Ok(Self {
            needs: values.fold(Needs::default(), Needs::or),
            removes_server: remove.contains(&header::SERVER),
            remove,
            set,
            add,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    /// Whether a message has a field after the changes; `None` where they leave it as it is.
    pub(crate) fn decides(&self, name: &HeaderName) -> Option<bool> {
        let mut given = self.set.iter().chain(&self.add);
        let is_given = given.any(|(own, _)| own == name);
        (is_given || self.remove.contains(name)).then_some(is_given)
    }

    /// The parts of requests that the variables of its values need.
    pub(super) const fn needs(&self) -> Needs {
        self.needs
    }

    /// Whether responses are to have no `Server`.
    pub(crate) const fn removes_server(&self) -> bool {
        self.removes_server
    }

    /// Changes the fields of a message. Without variables it needs no facts of the request. A field of whose
    /// value nothing is left is left out.
    pub(crate) fn apply(&self, headers: &mut HeaderMap, facts: Option<&Facts>) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in &self.set {
            match value.of(facts) {
                Some(value) => drop(headers.insert(name, value)),
                None => drop(headers.remove(name)),
            }
        }
        for (name, value) in &self.add {
            if let Some(value) = value.of(facts) {
                headers.append(name, value);
            }
        }
    }
}

impl Messages {
    /// The key of the configuration.
    const fn key(self) -> &'static str {
        match self {
            Self::Requests => "request_headers",
            Self::Responses => "response_headers",
        }
    }
}

fn fields_of(
    of: Messages,
    fields: &BTreeMap<String, String>,
) -> Result<Vec<(HeaderName, FieldValue)>, String> {
    let read = |(name, value): (&String, &String)| {
        let value = FieldValue::parse(value)
            .map_err(|why| format!("`{}`: the value of `{name}` {why}", of.key()))?;
        Ok((name_of(of, name)?, value))
    };
    fields.iter().map(read).collect()
}

fn name_of(of: Messages, name: &str) -> Result<HeaderName, String> {
    let key = of.key();
    let known: HeaderName = name
        .parse()
        .map_err(|_| format!("`{key}` names `{name}`, which is no name of a header field"))?;
    if OF_THE_SERVER.contains(&known) {
        return Err(format!(
            "`{key}` names `{name}`, which the server sets itself: leave it out"
        ));
    }
    if of == Messages::Requests && is_written_by_proxy(&known) {
        return Err(format!(
            "`{key}` names `{name}`, which the server writes itself for upstreams: leave it out"
        ));
    }
    Ok(known)
}

/// Fields that frame a message, belong to the connection, or that the server needs to be right.
const OF_THE_SERVER: [HeaderName; 12] = [
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::HOST,
    header::DATE,
    header::ALT_SVC,
    header::CONTENT_RANGE,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> HeadersConfig {
        toml::from_str(text).unwrap()
    }

    fn lines(headers: &HeaderMap) -> Vec<String> {
        let fields = headers.iter();
        fields
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn fields_are_removed_set_and_added() {
        let rules = config(
            r#"
            set = { X-Frame-Options = "DENY", Server = "me" }
            add = { Vary = "Cookie" }
            remove = ["X-Powered-By", "x-debug"]
            "#,
        );
        let rules = HeaderRules::new(Messages::Responses, &rules).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("vary", "Accept-Encoding"),
            ("x-powered-by", "PHP"),
            ("x-frame-options", "SAMEORIGIN"),
            ("x-frame-options", "ALLOWALL"),
            ("x-other", "1"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        rules.apply(&mut headers, None);
        let mut got = lines(&headers);
        got.sort();
        let want = [
            "server: me",
            "vary: Accept-Encoding",
            "vary: Cookie",
            "x-frame-options: DENY",
            "x-other: 1",
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn rules_know_the_fields_that_they_decide() {
        let rules = config("set = { A = \"1\" }\nadd = { B = \"1\" }\nremove = [\"B\", \"C\"]");
        let rules = HeaderRules::new(Messages::Responses, &rules).unwrap();
        for (name, want) in [
            ("a", Some(true)),
            ("b", Some(true)),
            ("c", Some(false)),
            ("d", None),
        ] {
            let name = HeaderName::from_static(name);
            assert_eq!(rules.decides(&name), want, "{name}");
        }
    }

    #[test]
    fn inner_changes_hold_for_the_fields_that_they_name() {
        let mut inner = config(
            r#"set = { A = "inner" }, add = { B = "inner" }, remove = ["C"]"#
                .replace(", add", "\nadd")
                .replace(", remove", "\nremove")
                .as_str(),
        );
        let outer = config(
            "set = { a = \"outer\", c = \"outer\", D = \"outer\" }\nadd = { E = \"outer\" }\nremove = [\"b\", \"f\"]",
        );
        inner.inherit(&outer);
        let want = config(
            "set = { A = \"inner\", D = \"outer\" }\nadd = { B = \"inner\", E = \"outer\" }\nremove = [\"C\", \"f\"]",
        );
        assert_eq!(inner, want);
    }

    #[test]
    fn wrong_fields_are_refused_by_name() {
        let cases = [
            ("set = { \"a b\" = \"x\" }", "`a b`"),
            (
                "set = { a = \"x\\r\\nb: y\" }",
                "the value of `a` has a control character",
            ),
            ("set = { Content-Length = \"1\" }", "`Content-Length`"),
            ("remove = [\"transfer-encoding\"]", "`transfer-encoding`"),
            (
                "remove = [\"Date\"]",
                "`Date`, which the server sets itself: leave it out",
            ),
            ("set = { Keep-Alive = \"timeout=5\" }", "`Keep-Alive`"),
            ("remove = [\"a\"]\nset = { A = \"1\" }", "`a`"),
            (
                "set = { a = \"$remote_addr\" }",
                "the value of `a` names the variable `remote_addr`: there are $client",
            ),
        ];
        for (text, want) in cases {
            let error = HeaderRules::new(Messages::Responses, &config(text)).unwrap_err();
            assert!(error.contains(want), "{error}");
            assert!(error.contains("response_headers"), "{error}");
        }
    }

    #[test]
    fn what_upstreams_get_from_the_server_alone_is_refused() {
        for name in [
            "X-Forwarded-For",
            "X-Real-IP",
            "Forwarded",
            "Expect",
            "Proxy-Authorization",
            "Host",
        ] {
            for text in [
                format!("set = {{ {name} = \"x\" }}"),
                format!("remove = [\"{name}\"]"),
            ] {
                let error = HeaderRules::new(Messages::Requests, &config(&text)).unwrap_err();
                let want = format!("`request_headers` names `{name}`, which the server");
                assert!(error.starts_with(&want), "{error}");
                assert!(error.ends_with("leave it out"), "{error}");
            }
        }
        let own = config("set = { X-Forwarded-Prefix = \"/a\", Authorization = \"x\" }");
        HeaderRules::new(Messages::Requests, &own).unwrap();
        let to_clients = config("set = { X-Real-IP = \"$client\" }");
        HeaderRules::new(Messages::Responses, &to_clients).unwrap();
    }

    #[test]
    fn the_server_names_itself_unless_told_otherwise() {
        let cases = [
            ("", Some("hikyaku")),
            ("set = { server = \"me\" }", Some("me")),
            ("set = { Server = \"$host\" }", Some("hikyaku")),
            ("remove = [\"SERVER\"]", None),
        ];
        for (text, want) in cases {
            let server = config(text).server();
            assert_eq!(
                server.as_ref().map(HeaderValue::as_bytes),
                want.map(str::as_bytes)
            );
            let rules = HeaderRules::new(Messages::Responses, &config(text)).unwrap();
            assert_eq!(rules.removes_server(), want.is_none(), "{text}");
        }
    }
}

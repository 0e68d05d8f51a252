//! Changes of a message's header fields.

use std::collections::{BTreeMap, BTreeSet};

use http::HeaderMap;
use http::header::{self, HeaderName, HeaderValue};
use serde::Deserialize;

/// Changes of header fields (`request_headers` and `response_headers` of the configuration).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HeadersConfig {
    /// Fields that replace those of the same name. Default: none.
    pub set: BTreeMap<String, String>,
    /// Fields that are added to those of the same name. Default: none.
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
}

/// Changes of header fields, ready to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeaderRules {
    remove: Vec<HeaderName>,
    set: Vec<(HeaderName, HeaderValue)>,
    add: Vec<(HeaderName, HeaderValue)>,
}

impl HeaderRules {
    /// No changes.
    pub(crate) const NONE: Self = Self {
        remove: Vec::new(),
        set: Vec::new(),
        add: Vec::new(),
    };

    /// Reads the changes of the fields under this `key`.
    ///
    /// # Errors
    /// If a name or value is malformed, if the field is the server's own, or if it is both set and
    /// removed. The error is a sentence.
    pub(crate) fn new(key: &str, config: &HeadersConfig) -> Result<Self, String> {
        let rules = Self {
            remove: config
                .remove
                .iter()
                .map(|name| name_of(key, name))
                .collect::<Result<_, _>>()?,
            set: fields_of(key, &config.set)?,
            add: fields_of(key, &config.add)?,
        };
        let both = rules
            .set
            .iter()
            .find(|(name, _)| rules.remove.contains(name));
        match both {
            Some((name, _)) => Err(format!("`{key}` both sets and removes `{name}`")),
            None => Ok(rules),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    /// Changes the fields of a message.
    pub(crate) fn apply(&self, headers: &mut HeaderMap) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in &self.set {
            headers.insert(name, value.clone());
        }
        for (name, value) in &self.add {
            headers.append(name, value.clone());
        }
    }
}

fn fields_of(
    key: &str,
    fields: &BTreeMap<String, String>,
) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let read = |(name, value): (&String, &String)| {
        let text = HeaderValue::from_str(value)
            .map_err(|_| format!("`{key}` gives `{name}` a value with a control character"))?;
        Ok((name_of(key, name)?, text))
    };
    fields.iter().map(read).collect()
}

fn name_of(key: &str, name: &str) -> Result<HeaderName, String> {
    let known: HeaderName = name
        .parse()
        .map_err(|_| format!("`{key}` names `{name}`, which is no name of a header field"))?;
    if OF_THE_SERVER.contains(&known) {
        return Err(format!(
            "`{key}` names `{name}`, which the server sets itself"
        ));
    }
    Ok(known)
}

/// Fields that frame a message, belong to the connection, or that the server needs to be right.
const OF_THE_SERVER: [HeaderName; 10] = [
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
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
        let rules = HeaderRules::new("response_headers", &rules).unwrap();
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
        rules.apply(&mut headers);
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
            ("set = { a = \"x\\r\\nb: y\" }", "`a`"),
            ("set = { Content-Length = \"1\" }", "`Content-Length`"),
            ("remove = [\"transfer-encoding\"]", "`transfer-encoding`"),
            ("remove = [\"a\"]\nset = { A = \"1\" }", "`a`"),
        ];
        for (text, want) in cases {
            let error = HeaderRules::new("response_headers", &config(text)).unwrap_err();
            assert!(error.contains(want), "{error}");
            assert!(error.contains("response_headers"), "{error}");
        }
    }
}

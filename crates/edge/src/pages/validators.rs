//! Validators of pages that were rewritten (RFC 9110 §8.8, §13).
//!
//! A rewritten page has an entity tag of its own, made of the original's. It is weak, since it stands
//! for all pages that are rewritten in the same way. The tags in a client's request are turned back
//! for the content, which knows the original's alone. A tag of another way is not: the client's page
//! may name an address that is gone.

use http::header::{self, HeaderMap, HeaderValue};

/// Tags of one way to rewrite pages.
#[derive(Clone, Debug)]
pub(crate) struct Tags {
    /// In every tag of the same rewriter, whatever its configuration.
    mark: String,
    /// Ending of every tag.
    suffix: String,
    keeps_dates: bool,
}

/// The tags of one request, as the client sent them.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    tags: Vec<Tag>,
    drops_dates: bool,
}

/// The opaque part of a tag, and that of the original.
#[derive(Debug)]
struct Tag {
    original: String,
    sent: String,
}

impl Tags {
    /// Tags of the rewriter `what`; `version` distinguishes its configurations.
    pub(crate) fn new(what: &str, version: u64) -> Self {
        let mark = format!("~{what}-");
        Self {
            suffix: format!("{mark}{version:016x}"),
            mark,
            keeps_dates: true,
        }
    }

    /// The same without `Last-Modified`, which would also hold for the page as it was, and for the
    /// page of another configuration.
    pub(crate) fn without_dates(self) -> Self {
        Self {
            keeps_dates: false,
            ..self
        }
    }

    /// Gives a page that is rewritten its own tag.
    pub(crate) fn mark(&self, headers: &mut HeaderMap) {
        if !self.keeps_dates {
            headers.remove(header::LAST_MODIFIED);
        }
        let Some(tag) = headers.remove(header::ETAG) else {
            return;
        };
        if let Some(opaque) = tag.to_str().ok().and_then(opaque)
            && let Ok(tag) = HeaderValue::try_from(format!("W/\"{opaque}{}\"", self.suffix))
        {
            headers.insert(header::ETAG, tag);
        }
    }

    /// Turns the tags that a client asks with into the original's.
    pub(crate) fn unmark(&self, request: &mut HeaderMap) -> Asked {
        let fields = request.get_all(header::IF_NONE_MATCH);
        let texts: Vec<&str> = fields
            .iter()
            .filter_map(|field| field.to_str().ok())
            .collect();
        if texts.iter().all(|text| !text.contains(&self.mark)) {
            return Asked::default();
        }
        let mut asked = Asked {
            tags: Vec::new(),
            drops_dates: !self.keeps_dates,
        };
        let mut kept = Vec::new();
        for tag in texts.iter().flat_map(|text| list(text)) {
            let Some(sent) = opaque(tag).filter(|sent| sent.contains(&self.mark)) else {
                kept.push(tag.to_owned());
                continue;
            };
            if let Some(original) = sent.strip_suffix(&self.suffix) {
                kept.push(format!("\"{original}\""));
                asked.tags.push(Tag {
                    original: original.to_owned(),
                    sent: sent.to_owned(),
                });
            }
        }
        // Not behind a tag that was taken out: a date counts where there is no tag (§13.1.3).
        request.remove(header::IF_MODIFIED_SINCE);
        request.remove(header::IF_NONE_MATCH);
        if let Ok(value) = HeaderValue::try_from(kept.join(", "))
            && !kept.is_empty()
        {
            request.insert(header::IF_NONE_MATCH, value);
        }
        asked
    }
}

impl Asked {
    /// Gives a 304 the tag of the page that the client has.
    pub(crate) fn restore(&self, not_modified: &mut HeaderMap) {
        let tag = not_modified.get(header::ETAG);
        let Some(original) = tag.and_then(|tag| opaque(tag.to_str().ok()?)) else {
            return;
        };
        let sent = self.tags.iter().find(|tag| tag.original == original);
        if let Some(sent) = sent
            && let Ok(tag) = HeaderValue::try_from(format!("W/\"{}\"", sent.sent))
        {
            not_modified.insert(header::ETAG, tag);
            if self.drops_dates {
                not_modified.remove(header::LAST_MODIFIED);
            }
        }
    }
}

/// The opaque part of an entity tag, weak or strong.
fn opaque(tag: &str) -> Option<&str> {
    let tag = tag.trim();
    tag.strip_prefix("W/")
        .unwrap_or(tag)
        .strip_prefix('"')?
        .strip_suffix('"')
}

/// The elements of a list of tags, which may hold commas in quotes.
fn list(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let elements = text.split(move |c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    elements
        .map(str::trim)
        .filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let fields = fields.iter().map(|(name, value)| {
            (
                header::HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            )
        });
        fields.collect()
    }

    fn shards(version: u64) -> Tags {
        Tags::new("shards", version).without_dates()
    }

    #[test]
    fn two_rewriters_mark_one_after_the_other() {
        let (inner, outer) = (shards(1), Tags::new("beacon", 2));
        let mut page = headers(&[("etag", "\"a\""), ("last-modified", "x")]);
        outer.mark(&mut page);
        let alone = "W/\"a~beacon-0000000000000002\"";
        assert_eq!(page, headers(&[("etag", alone), ("last-modified", "x")]));

        let mut page = headers(&[("etag", "\"a\"")]);
        inner.mark(&mut page);
        outer.mark(&mut page);
        let both = "W/\"a~shards-0000000000000001~beacon-0000000000000002\"";
        assert_eq!(page, headers(&[("etag", both)]));

        let mut request = headers(&[("if-none-match", both)]);
        let of_outer = outer.unmark(&mut request);
        let of_inner = inner.unmark(&mut request);
        assert_eq!(request, headers(&[("if-none-match", "\"a\"")]));
        let mut answer = headers(&[("etag", "\"a\"")]);
        of_inner.restore(&mut answer);
        of_outer.restore(&mut answer);
        assert_eq!(answer, headers(&[("etag", both)]));
    }

    #[test]
    fn a_tag_goes_out_and_comes_back() {
        let tags = shards(0xab);
        for original in ["\"a,b\"", "W/\"a,b\""] {
            let mut page = headers(&[("etag", original), ("last-modified", "x"), ("a", "1")]);
            tags.mark(&mut page);
            let marked = "W/\"a,b~shards-00000000000000ab\"";
            assert_eq!(page, headers(&[("etag", marked), ("a", "1")]));

            let mut request = headers(&[("if-none-match", marked), ("if-modified-since", "x")]);
            let asked = tags.unmark(&mut request);
            assert_eq!(request, headers(&[("if-none-match", "\"a,b\"")]));
            let mut answer = headers(&[("etag", original)]);
            asked.restore(&mut answer);
            assert_eq!(answer, headers(&[("etag", marked)]));
        }
    }

    #[test]
    fn tags_of_other_shards_are_taken_out() {
        let other = "W/\"a~shards-00000000000000cd\"";
        // If-None-Match, what the content is asked
        let cases: &[(&str, Option<&str>)] =
            &[(other, None), ("\"b\"", Some("\"b\"")), ("*", Some("*"))];
        for (sent, want) in cases {
            let mut request = headers(&[("if-none-match", sent)]);
            let asked = shards(0xab).unmark(&mut request);
            assert_eq!(
                request.get("if-none-match").map(|v| v.to_str().unwrap()),
                *want,
                "{sent}"
            );
            let mut answer = headers(&[("etag", "\"a\"")]);
            asked.restore(&mut answer);
            assert_eq!(answer, headers(&[("etag", "\"a\"")]), "{sent}");
        }
        let several = format!("\"b\", {other}, W/\"c~shards-00000000000000ab\"");
        let mut request = headers(&[("if-none-match", &several)]);
        let asked = shards(0xab).unmark(&mut request);
        assert_eq!(request["if-none-match"], "\"b\", \"c\"");
        let mut answer = headers(&[("etag", "\"b\"")]);
        asked.restore(&mut answer);
        assert_eq!(answer["etag"], "\"b\"");
    }

    #[test]
    fn dates_stay_where_no_tag_is_ours() {
        let fields = [("if-none-match", "\"b\""), ("if-modified-since", "x")];
        let mut request = headers(&fields);
        shards(1).unmark(&mut request);
        assert_eq!(request, headers(&fields));
    }
}

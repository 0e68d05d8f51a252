//! Validators of pages that were rewritten (RFC 9110 §8.8, §13).
//!
//! A rewritten page has an entity tag of its own, made of the original's. It is weak, since it stands
//! for all pages that are rewritten for the same shards. The tags in a client's request are turned back
//! for the content, which knows the original's alone. A tag of other shards is not: the client's page
//! may name a shard that is gone.

use http::header::{self, HeaderMap, HeaderValue};

/// Tags of one configuration of shards.
#[derive(Clone, Debug)]
pub(super) struct Tags {
    /// Ending of every tag.
    suffix: String,
}

/// The tags of one request, as the client sent them.
#[derive(Debug, Default)]
pub(crate) struct Asked(Vec<Tag>);

/// The opaque part of a tag, and that of the original.
#[derive(Debug)]
struct Tag {
    original: String,
    sent: String,
}

impl Tags {
    /// `version` distinguishes configurations.
    pub(super) fn new(version: u64) -> Self {
        Self {
            suffix: format!("{MARK}{version:016x}"),
        }
    }

    /// Gives a page that is rewritten its own tag. A date would also hold for the page as it
    /// was, and for other shards.
    pub(super) fn mark(&self, headers: &mut HeaderMap) {
        headers.remove(header::LAST_MODIFIED);
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
    pub(super) fn unmark(&self, request: &mut HeaderMap) -> Asked {
        let fields = request.get_all(header::IF_NONE_MATCH);
        let texts: Vec<&str> = fields
            .iter()
            .filter_map(|field| field.to_str().ok())
            .collect();
        if texts.iter().all(|text| !text.contains(MARK)) {
            return Asked::default();
        }
        let (mut asked, mut kept) = (Asked::default(), Vec::new());
        for tag in texts.iter().flat_map(|text| list(text)) {
            let Some(sent) = opaque(tag).filter(|sent| sent.contains(MARK)) else {
                kept.push(tag.to_owned());
                continue;
            };
            if let Some(original) = sent.strip_suffix(&self.suffix) {
                kept.push(format!("\"{original}\""));
                asked.0.push(Tag {
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
    pub(super) fn restore(&self, not_modified: &mut HeaderMap) {
        let tag = not_modified.get(header::ETAG);
        let Some(original) = tag.and_then(|tag| opaque(tag.to_str().ok()?)) else {
            return;
        };
        let sent = self.0.iter().find(|tag| tag.original == original);
        if let Some(sent) = sent
            && let Ok(tag) = HeaderValue::try_from(format!("W/\"{}\"", sent.sent))
        {
            not_modified.insert(header::ETAG, tag);
            not_modified.remove(header::LAST_MODIFIED);
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

/// In every tag of a rewritten page.
const MARK: &str = "~shards-";

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

    #[test]
    fn a_tag_goes_out_and_comes_back() {
        let tags = Tags::new(0xab);
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
            let asked = Tags::new(0xab).unmark(&mut request);
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
        let asked = Tags::new(0xab).unmark(&mut request);
        assert_eq!(request["if-none-match"], "\"b\", \"c\"");
        let mut answer = headers(&[("etag", "\"b\"")]);
        asked.restore(&mut answer);
        assert_eq!(answer["etag"], "\"b\"");
    }

    #[test]
    fn dates_stay_where_no_tag_is_ours() {
        let fields = [("if-none-match", "\"b\""), ("if-modified-since", "x")];
        let mut request = headers(&fields);
        Tags::new(1).unmark(&mut request);
        assert_eq!(request, headers(&fields));
    }
}

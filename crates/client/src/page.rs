//! A page as a browser loads it: the document, then its resources.

mod css;
mod html;

use std::collections::HashSet;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use url::Url;

use super::exchange::Sink;
use super::record::RequestRecord;
use super::session::{Client, Fetched, Order, Session};
use super::target::{Target, Template};

/// A resource of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Resource {
    url: Url,
    kind: Kind,
    urgency: Urgency,
}

impl Resource {
    /// A resource at `reference`; `None` if that is empty or not of HTTP.
    fn new(base: &Url, reference: &str, kind: Kind, urgency: Urgency) -> Option<Self> {
        let reference = reference.trim();
        if reference.is_empty() {
            return None;
        }
        let url = base.join(reference).ok()?;
        matches!(url.scheme(), "http" | "https").then_some(Self { url, kind, urgency })
    }
}

/// The kind of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Style,
    Script,
    Image,
    Font,
    Frame,
    /// A resource of a preload or of CSS, for whatever use.
    Other,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Style => "style",
            Self::Script => "script",
            Self::Image => "image",
            Self::Font => "font",
            Self::Frame => "frame",
            Self::Other => "other",
        }
    }
}

/// The urgency of a resource, in the order of browsers' requests. Resources of the same urgency
/// keep the document's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// Resources that block painting: style sheets, scripts and preloads of the head.
    Blocking,
    /// Scripts further down, async and deferred ones.
    Late,
    /// Images and frames.
    Content,
    /// Resources that the page marks for lazy loading, or that no screen uses.
    Lazy,
}

/// Fetches the page `target` with all its resources over `session`. The records are in the order of
/// the requests.
pub(super) async fn load(
    client: &Client,
    session: &Session,
    target: &Target,
    run: u32,
) -> Vec<RequestRecord> {
    let load = Load {
        client,
        session,
        page: &target.url,
        run,
    };
    let document = load
        .fetch(target.clone(), "document", &client.settings.template)
        .await;
    // An error page's resources are not the page's.
    let found = if document.found {
        html::resources(&document.text, &target.url)
    } else {
        Vec::new()
    };
    let mut records = vec![document.record];
    records.extend(load.resources(found).await);
    records.sort_by_key(|record| record.start_us);
    records
}

/// One page being loaded.
struct Load<'a> {
    client: &'a Client,
    session: &'a Session,
    page: &'a Url,
    run: u32,
}

/// A resource that has arrived, or failed.
struct Arrived {
    record: RequestRecord,
    target: Target,
    text: Vec<u8>,
    /// Whether the status was a success.
    found: bool,
}

impl Load<'_> {
    /// Requests everything at once, the most urgent first, and resources of style sheets once these
    /// have arrived. The connections decide how many requests are in flight.
    async fn resources(&self, mut found: Vec<Resource>) -> Vec<RequestRecord> {
        found.sort_by_key(|resource| resource.urgency);
        let template = self.client.settings.template.for_resources();
        let mut known = HashSet::from([self.page.clone()]);
        let mut records = Vec::new();
        let mut fetches = FuturesUnordered::new();
        loop {
            for resource in found.drain(..) {
                let Some(target) = Target::new(resource.url) else {
                    continue;
                };
                if known.insert(target.url.clone()) {
                    fetches.push(self.fetch(target, resource.kind.name(), &template));
                }
            }
            let Some(arrived) = fetches.next().await else {
                return records;
            };
            if arrived.found && arrived.record.resource == Some(Kind::Style.name()) {
                found =
                    css::resources(&String::from_utf8_lossy(&arrived.text), &arrived.target.url);
            }
            records.push(arrived.record);
        }
    }

    async fn fetch(&self, target: Target, resource: &'static str, template: &Template) -> Arrived {
        let is_text = matches!(resource, "document" | "style");
        let mut sink = if is_text {
            Sink::Collect(Vec::new())
        } else {
            Sink::Discard
        };
        let order = Order {
            target: &target,
            template,
            more_follow: resource == "document",
        };
        let fetched = self.session.fetch(order, &mut sink).await;
        let epoch = self.client.epoch;
        let mut record = RequestRecord::new(self.run, target.url.as_str(), epoch, &fetched);
        record.page = Some(self.page.to_string());
        record.resource = Some(resource);
        let text = match sink {
            Sink::Collect(text) => text,
            Sink::Discard | Sink::Count(_) | Sink::File(..) => Vec::new(),
        };
        Arrived {
            record,
            found: was_found(&fetched),
            target,
            text,
        }
    }
}

fn was_found(fetched: &Fetched) -> bool {
    fetched.succeeded() && fetched.status.is_some_and(|status| status.is_success())
}

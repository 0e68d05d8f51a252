//! `GET /metrics`.

use std::io::{self, Write};
use std::sync::atomic::Ordering;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tokio::runtime::Handle;

use super::{Admin, certificates, problem, text};
use crate::gain::{SCRAPED, USUAL};
use crate::metrics::{self, Format, Gauges, Process};
use hikyaku_content::Body;

/// Answers a scraper in the format that it prefers.
pub(super) fn exposition(headers: &HeaderMap, admin: &Admin) -> Response<Body> {
    let format = Format::of(headers);
    let written = all(admin).map(|metrics| format.write(metrics));
    let metrics = match written {
        Ok(metrics) => metrics,
        Err(error) => return problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    let mut response = match metrics::accepts_gzip(headers) {
        true => match gzip(metrics.as_bytes()) {
            Ok(coded) => {
                let mut response = text(format.content_type(), Bytes::from(coded));
                let gzip = HeaderValue::from_static("gzip");
                response
                    .headers_mut()
                    .insert(header::CONTENT_ENCODING, gzip);
                response
            }
            Err(error) => return problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        },
        false => text(format.content_type(), metrics),
    };
    let vary = HeaderValue::from_static("Accept, Accept-Encoding");
    response.headers_mut().insert(header::VARY, vary);
    response
}

/// All metrics, as OpenMetrics.
fn all(admin: &Admin) -> Result<String, std::fmt::Error> {
    let shared = &admin.shared;
    let gauges = Gauges {
        clients: shared.clients.len(),
        unstored: shared.unstored(),
        response_memory: admin.connections.memory(),
        tasks: Handle::current().metrics().num_alive_tasks(),
    };
    let mut registry = metrics::registry();
    shared.metrics.register(&mut registry, gauges);
    admin.certificates.load().register(&mut registry);
    if let Some(keeper) = &admin.acme {
        metrics::register_acme(&mut registry, keeper.counts(), &keeper.statuses());
    }
    metrics::register_ocsp(&mut registry, admin.stapler.counts(), &certificates(admin));
    metrics::register_upstreams(&mut registry, &admin.upstreams.statuses());
    metrics::register_caches(&mut registry, &admin.caches.statuses());
    let gain = shared.gain.report(USUAL, None, SCRAPED);
    metrics::register_gain(&mut registry, &gain);
    if let Some(fleet) = shared.fleet.status() {
        metrics::register_fleet(&mut registry, &fleet);
    }
    if let Some(egress) = &shared.egress {
        egress.register(&mut registry);
        shared.metrics.register_failovers(&mut registry);
    }
    if let Some(tracer) = shared.tracer.get() {
        let (exported, dropped) = (&tracer.exported, &tracer.dropped);
        let counts = [exported, dropped].map(|count| count.load(Ordering::Relaxed));
        metrics::register_spans(&mut registry, counts);
    }
    metrics::encode(&registry, &Process::read())
}

/// Scrapes come every few seconds, so speed counts for more than the last bytes.
fn gzip(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content)?;
    encoder.finish()
}

//! Metrics of the standing of certificates by OCSP.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::counters;
use crate::tls::CertificateReport;

/// Adds what Prometheus shall know of requests to responders, by their result, and of the responses that are
/// there.
pub(crate) fn register_ocsp(
    registry: &mut Registry,
    requests: [(&'static str, u64); 4],
    reports: &[CertificateReport],
) {
    let requests = requests.map(|(result, count)| (vec![("result", result)], count));
    counters(
        registry,
        "ocsp_requests",
        "Requests to OCSP responders by their result",
        requests.to_vec(),
    );
    let next = Family::<Vec<(&'static str, String)>, Gauge>::default();
    for report in reports {
        for one in &report.certificates {
            let response = one.ocsp.as_ref();
            if let Some(expires) = response.and_then(|response| response.next_update) {
                let name = report.names.first().cloned().unwrap_or_default();
                let labels = vec![("certificate", name), ("key", one.key.clone())];
                next.get_or_create(&labels).set(expires);
            }
        }
    }
    registry.register_with_unit(
        "ocsp_next_update",
        "When the OCSP response of a certificate expires, since the Unix epoch",
        Unit::Seconds,
        next,
    );
}

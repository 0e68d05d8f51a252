//! Metrics of the reverse proxy's upstreams.

use hikyaku_content::{UpstreamError, UpstreamStatus};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::counters;
use super::histogram::Histograms;

type Labels = Vec<(&'static str, String)>;

/// Adds the state of the upstreams, where there are any. Their labels are those of the configuration.
pub(crate) fn register_upstreams(registry: &mut Registry, upstreams: &[UpstreamStatus]) {
    if upstreams.is_empty() {
        return;
    }
    let of = |value: fn(&UpstreamStatus) -> u64| {
        let all = upstreams.iter();
        all.map(|it| (labels(it), value(it))).collect::<Vec<_>>()
    };
    counters(
        registry,
        "upstream_requests",
        "Requests that an upstream was asked to answer",
        of(|it| it.requests),
    );
    counters(
        registry,
        "upstream_failures",
        "Requests that an upstream failed to answer",
        of(|it| it.failures),
    );
    counters(
        registry,
        "upstream_retries",
        "Failures of an upstream after which another was asked",
        of(|it| it.repeats),
    );
    for (name, help, values) in [
        (
            "upstream_requests_under_way",
            "Requests to an upstream whose responses are not over",
            of(|it| it.under_way),
        ),
        (
            "upstream_up",
            "1 while an upstream gets requests, since it answers them and its checks",
            of(|it| it.is_up.into()),
        ),
    ] {
        let family = Family::<Labels, Gauge>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).set(value.cast_signed());
        }
        registry.register(name, help, family);
    }
    register_errors(registry, upstreams);
    let times = upstreams.iter();
    let times = times.map(|it| (it.url.clone(), (&it.latency).into()));
    registry.register_with_unit(
        "upstream_response_time",
        "From a request to an upstream until the head of its response is there",
        Unit::Seconds,
        Histograms::by("upstream", times.collect()),
    );
}

fn register_errors(registry: &mut Registry, upstreams: &[UpstreamStatus]) {
    let errors = upstreams.iter().flat_map(|upstream| {
        let kinds = UpstreamError::ALL.into_iter().zip(upstream.errors);
        kinds.map(|(kind, count)| {
            let mut labels = labels(upstream);
            labels.push(("kind", kind.name().to_owned()));
            (labels, count)
        })
    });
    counters(
        registry,
        "upstream_errors",
        "Errors of an upstream by their kind",
        errors.collect(),
    );
}

fn labels(upstream: &UpstreamStatus) -> Labels {
    vec![("upstream", upstream.url.clone())]
}

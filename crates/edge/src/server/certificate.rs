//! Looking after the certificates: their files, and their time.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::CryptoProvider;
use tokio_util::sync::CancellationToken;

use crate::metrics::add;
use crate::shared::Shared;
use crate::tls::{Certificate, Source};

/// Between looks whether the files have changed.
const INTERVAL: Duration = Duration::from_secs(2);

/// Reads the files again when they have changed, and warns of certificates that expire.
pub(super) async fn watch_certificate(
    certificate: Arc<Certificate>,
    shared: Arc<Shared>,
    provider: Arc<CryptoProvider>,
    end: CancellationToken,
) {
    let is_self_signed = matches!(certificate.source(), Source::SelfSigned { .. });
    let mut seen = certificate.modified();
    let mut warned = HashSet::new();
    loop {
        warned = warn_of_time(&certificate, &warned);
        let slept = end.run_until_cancelled(tokio::time::sleep(INTERVAL)).await;
        if slept.is_none() {
            return;
        }
        let modified = certificate.modified();
        if modified != seen || is_self_signed {
            reload(&certificate, &shared, &provider);
            seen = modified;
        }
    }
}

/// Says what concerns the certificates' time, if it has not been said; gives what holds now. The
/// text changes each day, so that it is said each day.
fn warn_of_time(certificate: &Certificate, warned: &HashSet<String>) -> HashSet<String> {
    let now = SystemTime::now();
    let descriptions = certificate.descriptions();
    let concerns = descriptions.iter().filter_map(|one| one.concern(now));
    let concerns: HashSet<_> = concerns.collect();
    for concern in concerns.difference(warned) {
        tracing::warn!("{concern}");
    }
    concerns
}

fn reload(certificate: &Certificate, shared: &Shared, provider: &CryptoProvider) {
    let former = certificate.descriptions();
    match certificate.reload(provider) {
        Ok(()) => {
            for now in certificate.descriptions() {
                if !former.contains(&now) {
                    add(&shared.metrics.reloads, 1);
                    let fingerprint = now.fingerprint;
                    tracing::info!("certificate changed; fingerprint (SHA-256) {fingerprint}");
                }
            }
        }
        Err(error) => {
            // Written half, perhaps: the change is looked at again when it goes on.
            add(&shared.metrics.reloads_failed, 1);
            tracing::warn!("certificate not reloaded, the former stays in use: {error}");
        }
    }
}

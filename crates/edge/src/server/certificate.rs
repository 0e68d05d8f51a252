//! Looking after the certificates: their files, their time, and those that are got by ACME.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hikyaku_acme::{Keeper, Peers, system_clock};
use hikyaku_fleet::Board;
use rustls::crypto::CryptoProvider;
use tokio_util::sync::CancellationToken;

use super::in_force::Kept;
use crate::metrics::add;
use crate::part::Part;
use crate::shared::Shared;
use crate::tls::{Certificate, Certificates, Source};

/// Between looks whether the files have changed.
const INTERVAL: Duration = Duration::from_secs(2);

/// Reads the files again when they have changed, and warns of certificates that expire.
pub(super) async fn watch_certificates(
    certificates: Part<Certificates>,
    shared: Arc<Shared>,
    provider: Arc<CryptoProvider>,
    end: CancellationToken,
) {
    let mut warned = HashSet::new();
    loop {
        warned = warn_of_time(&certificates.load(), &warned);
        let slept = end.run_until_cancelled(tokio::time::sleep(INTERVAL)).await;
        if slept.is_none() {
            return;
        }
        for certificate in certificates.load().all() {
            if certificate.is_outdated() {
                reload(certificate, &shared, &provider);
            }
        }
    }
}

/// Says what concerns the certificates' time, if it has not been said; gives what holds now. The
/// text changes each day, so that it is said each day.
fn warn_of_time(certificates: &Certificates, warned: &HashSet<String>) -> HashSet<String> {
    let now = SystemTime::now();
    let concerns = certificates.all().flat_map(|one| one.concerns(now));
    let concerns: HashSet<_> = concerns.collect();
    for concern in concerns.difference(warned) {
        tracing::warn!("{concern}");
    }
    concerns
}

/// Keeps certificates in `state`, and takes new ones into use.
pub(super) fn keeper(
    state: &Path,
    certificates: Part<Certificates>,
    shared: &Arc<Shared>,
    kept: &Kept,
    peers: Arc<dyn Peers>,
) -> Keeper {
    let (shared, provider) = (Arc::clone(shared), Arc::clone(&kept.provider));
    let on_issued = move |file: &Path| take_issued(file, &certificates.load(), &shared, &provider);
    let answers = Arc::clone(&kept.answers);
    answers.share(Arc::clone(&peers));
    Keeper::new(state, answers, system_clock(), Some(peers), on_issued)
}

/// Has certificates taken over that other edges of the fleet have got.
pub(super) async fn follow_fleet(keeper: Arc<Keeper>, board: Arc<Board>, end: CancellationToken) {
    let mut changed = board.changed();
    while let Some(Ok(())) = end.run_until_cancelled(changed.changed()).await {
        keeper.look();
    }
}

/// Takes a certificate into use that has just been got by ACME.
fn take_issued(
    file: &Path,
    certificates: &Certificates,
    shared: &Shared,
    provider: &CryptoProvider,
) {
    let is_it = |source: &Source| matches!(source, Source::Acme { file: own, .. } if own == file);
    for certificate in certificates.all().filter(|one| is_it(one.source())) {
        reload(certificate, shared, provider);
    }
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

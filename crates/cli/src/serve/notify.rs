//! Notifications to the service manager (sd_notify(3)), if there is one.

use sd_notify::NotifyState;

/// Notifies that requests are answered, with the configuration in `status`.
pub(super) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Notifies that the configuration is being read again; [`ready`] ends that.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!("reading the clock for the service manager: {error}"),
    }
}

/// Notifies that no new requests are taken.
pub(super) fn stopping() {
    send(&[
        NotifyState::Stopping,
        NotifyState::Status("stopping: requests in flight are answered"),
    ]);
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("notifying the service manager of the state: {error}");
    }
}

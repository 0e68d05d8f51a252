//! Notifications to the service manager (sd_notify(3)), if there is one.

use hikyaku_edge::Pulse;
use sd_notify::NotifyState;
use tokio::task::AbortHandle;

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

/// Notifies that process `pid` is the one to look after: it serves from now on.
pub(super) fn main_process(pid: u32) {
    send(&[NotifyState::MainPid(pid)]);
}

/// Notifies twice in each interval of the watchdog, if there is one, that all threads run. A server whose
/// threads do not run is then restarted. Whoever hands over aborts the task: that would speak for the
/// process that serves.
pub(super) fn watch(pulse: Pulse) -> Option<AbortHandle> {
    let interval = sd_notify::watchdog_enabled()?;
    let watching = tokio::spawn(async move {
        loop {
            pulse.beat().await;
            send(&[NotifyState::Watchdog]);
            tokio::time::sleep(interval / 2).await;
        }
    });
    Some(watching.abort_handle())
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("notifying the service manager of the state: {error}");
    }
}

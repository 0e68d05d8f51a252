//! A prefix hears its clients' verdicts, not their every event.

use super::{Secs, Timestamp, UdpEvent, UdpHealth, UdpPolicy, UdpState};

impl UdpHealth {
    /// What the prefix knows when this is its only client's health: a failure is one verdict.
    pub(crate) fn as_prefix(&self) -> Self {
        let none = Self::default();
        match self.state {
            UdpState::Working { .. } | UdpState::Suspect { .. } => Self {
                state: self.state,
                ..none
            },
            UdpState::Broken { since, .. } => Self {
                state: UdpState::Suspect { since },
                ..none
            },
            UdpState::NeverCame { .. } => Self {
                unanswered: 1,
                ..none
            },
            UdpState::Unknown | UdpState::Throttled { .. } => none,
        }
    }

    /// Takes an event of a client in this prefix, whose own health it changed from `before` to `after`.
    ///
    /// The prefix counts a client that gave up on QUIC as one unanswered session, and a client whose UDP
    /// broke as one break; a QUIC connection of any client clears a suspicion. While the prefix is being
    /// probed, the probing client speaks for it.
    pub fn on_client_event(
        &mut self,
        event: UdpEvent,
        before: &Self,
        after: &Self,
        now: Timestamp,
        policy: &UdpPolicy,
    ) {
        let secs = Secs::from(now);
        let probing = self.failure().is_some() && self.offered_lately(secs);
        let newly = |state: fn(&UdpState) -> bool| state(&after.state) && !state(&before.state);
        match event {
            UdpEvent::Advertised if self.failure().is_some() => self.on_advertised(secs, policy),
            UdpEvent::Advertised => {}
            UdpEvent::SessionEnded => {
                if probing || newly(|s| matches!(s, UdpState::NeverCame { .. })) {
                    self.count_unanswered(secs, policy);
                }
            }
            UdpEvent::Arrived => {
                if let UdpState::Suspect { .. } = self.state {
                    self.state = UdpState::Working { since: secs };
                }
                self.on_arrived(secs);
            }
            UdpEvent::Broke | UdpEvent::BackOnTcp => {
                let probe_broke = probing && event == UdpEvent::Broke;
                if probe_broke || newly(|s| matches!(s, UdpState::Broken { .. })) {
                    self.on_broke(secs, policy);
                }
            }
        }
    }
}

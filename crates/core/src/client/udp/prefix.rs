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
                state: UdpState::suspect(since, false),
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
    /// broke as one break; a QUIC connection of any client clears a suspicion. Once it is given up, only
    /// the client that took its probe speaks for it.
    pub fn on_client_event(
        &mut self,
        event: UdpEvent,
        before: &Self,
        after: &Self,
        now: Timestamp,
        policy: &UdpPolicy,
    ) {
        let secs = Secs::from(now);
        // The client that took the probe answers for it.
        let probing =
            self.failure().is_some() && self.offered_lately(secs) && before.offered >= self.offered;
        let fails = self.failure().is_some();
        let newly = |state: fn(&UdpState) -> bool| state(&after.state) && !state(&before.state);
        match event {
            UdpEvent::Advertised if fails => self.on_advertised(secs, policy),
            UdpEvent::Advertised => {}
            UdpEvent::SessionEnded => {
                let gave_up = newly(|s| matches!(s, UdpState::NeverCame { .. }));
                if probing || gave_up && !fails {
                    self.count_unanswered(secs, policy);
                }
            }
            UdpEvent::Arrived => {
                if let UdpState::Suspect { .. } = self.state {
                    self.state = UdpState::works_since(secs);
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

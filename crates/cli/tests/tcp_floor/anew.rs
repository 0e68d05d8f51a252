//! The reset of measurements when a connection takes another path.

use super::*;
use hikyaku_emulator::link::ChangePair;
use hikyaku_netsim::{Change, LinkPatch};

pub(super) fn at(ms: u64, patch: LinkPatch) -> Change {
    let at = Duration::from_millis(ms);
    Change { at, patch }
}

pub(super) fn lossy(ppm: u32) -> LinkPatch {
    LinkPatch {
        loss: Some(Loss::Bernoulli(LossRate::from_ppm(ppm).unwrap())),
        ..LinkPatch::default()
    }
}

impl Lab {
    /// The last window before `until` of a connection that has filled the path. Its link changes,
    /// and at `time` its control begins anew.
    fn window_after(&self, changes: ChangePair, [time, until]: [Duration; 2]) -> u32 {
        let mut pair = self.connect(&self.listen());
        self.set(&pair, FAIR);
        self.send(&mut pair, 10_000_000, |_| {});
        self.topology.link().begin_changes(changes).unwrap();
        let server = pair.server.try_clone().unwrap();
        let peer = IpAddr::from(CLIENT_V4);
        let (began, mut anew, mut window) = (Instant::now(), false, None);
        self.send(&mut pair, 25_000_000, |seen| {
            let now = began.elapsed();
            if now >= time && !std::mem::replace(&mut anew, true) {
                self.controls.begin_anew(&server, peer, FAIR).unwrap();
            } else if now < until {
                window = Some(seen.cwnd);
            }
        });
        assert!(anew, "sent in {:?}", began.elapsed());
        window.unwrap()
    }
}

/// The median window of three connections, each on its own link. CUBIC's alone are no more than 35
/// segments.
fn median_window(changes: &ChangePair, times: [u64; 2]) -> Option<u32> {
    let times = times.map(Duration::from_millis);
    let window = || Some(Lab::start(0.01)?.window_after(changes.clone(), times));
    (0..3).map(|_| window()).collect::<Option<_>>().map(median)
}

/// By the round-trip times of the shorter path there would be a queue, and each loss would be
/// congestion.
#[test]
fn a_longer_path_is_learnt_anew() {
    let longer = LinkPatch {
        one_way_delay: Some(RTT),
        ..LinkPatch::default()
    };
    let changes = ChangePair {
        down: vec![at(0, longer.clone())],
        up: vec![at(0, longer)],
    };
    let Some(window) = median_window(&changes, [300, 1800]) else {
        return;
    };
    assert!(window > 150, "{window}");
}

/// More than half of the bytes in flight are lost, which would end trust for 32 rounds.
#[test]
fn bytes_in_flight_show_nothing_of_the_new_path() {
    let changes = ChangePair {
        down: vec![at(200, lossy(600_000)), at(240, lossy(10_000))],
        up: Vec::new(),
    };
    let Some(window) = median_window(&changes, [240, 1400]) else {
        return;
    };
    assert!(window > 150, "{window}");
}

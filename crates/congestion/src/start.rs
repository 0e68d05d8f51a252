use crate::initial_window;

/// The begin of a connection on an unknown path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Packets of the initial window, in place of the ten of RFC 9002 §7.2. Default none.
    pub packets: Option<u16>,
    /// Whether the slow start of [`Algorithm::Floor`](crate::Algorithm::Floor) triples its window
    /// while no queue shows. Default true.
    pub rapid: bool,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            packets: None,
            rapid: true,
        }
    }
}

impl Start {
    /// The initial window in bytes, with packets of `mss` bytes.
    pub(crate) fn window(self, mss: f64) -> f64 {
        let packets = self.packets.map(f64::from);
        packets.map_or_else(|| initial_window(mss), |packets| packets.max(2.0) * mss)
    }
}

//! What a link is like.

use std::time::Duration;

use hikyaku_core::units::{LossRate, Rate};

/// One direction of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Rate of the transmitter, counted in wire bytes (see [`Self::overhead`]).
    /// `None`, the default, sends at once: nothing ever waits in the queue.
    pub rate: Option<Rate>,
    /// Propagation delay, the least time from the last bit sent to delivery.
    /// Default 0.
    pub one_way_delay: Duration,
    /// Extra delay of each packet, uniform in `0..=jitter`. A packet never
    /// overtakes the one before it: it then leaves together with it. Default 0.
    pub jitter: Duration,
    /// Loss on the wire, after the transmitter: lost packets take their share of
    /// the rate, as on a radio or long-distance link behind the bottleneck.
    /// Default none.
    pub loss: Loss,
    /// Room for packets that wait for the transmitter; the one being sent does
    /// not count. Default 1000 packets.
    pub queue: QueueLimit,
    /// Bytes that the wire adds to each packet, for rate and queue. Default 14,
    /// an Ethernet header without its checksum, as `tc` counts on Ethernet.
    pub overhead: u32,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: None,
            one_way_delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: Loss::None,
            queue: QueueLimit::Packets(1000),
            overhead: 14,
        }
    }
}

/// Room in the queue. A packet that does not fit on arrival is dropped (drop
/// tail); an idle transmitter takes any packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Wire bytes that may wait.
    Bytes(u64),
    /// Packets that may wait.
    Packets(u32),
    /// Time that an accepted packet may wait before its first bit is sent.
    Time(Duration),
}

/// How packets are lost on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// None is lost.
    #[default]
    None,
    /// Each packet is lost with the same chance, independently.
    Bernoulli(LossRate),
    /// Losses in bursts: a two-state Markov chain that starts in the good state.
    /// Each packet is first lost or not by the state's own loss, then the state
    /// may change. The mean loss is
    /// `(r × loss_good + p × loss_bad) / (p + r)`, a bad period lasts `1 / r`
    /// packets on average. Parameters as in Gilbert (1960) and Elliott (1963),
    /// and in `tc netem loss gemodel`, whose `1-h` and `1-k` are the losses here.
    GilbertElliott {
        /// Chance per packet to go from good to bad, parts per million.
        p_ppm: u32,
        /// Chance per packet to go from bad to good, parts per million.
        r_ppm: u32,
        /// Loss in the good state.
        loss_good: LossRate,
        /// Loss in the bad state.
        loss_bad: LossRate,
    },
}

//! What a link is like.

use std::time::Duration;

use hikyaku_units::{LossRate, Rate};
use serde::{Deserialize, Serialize};

use crate::patch::LinkPatch;
use crate::trace::Trace;

/// One direction of a path.
///
/// In TOML and JSON a table of the same keys, each optional, in units; `rate` may
/// be replaced by `trace`. It is written back with every key.
///
/// ```
/// # use hikyaku_netsim::LinkConfig;
/// let link: LinkConfig = toml::from_str(
///     r#"
///     rate = "200Mbps"
///     one_way_delay = "25ms"
///     loss = "0.1%"
///     queue = "50ms"
///     "#,
/// )?;
/// # assert_eq!(link.one_way_delay.as_millis(), 25);
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "LinkPatch", into = "LinkPatch")]
pub struct LinkConfig {
    /// How fast the transmitter sends. Default unlimited.
    pub rate: Capacity,
    /// Propagation delay, the least time from the last bit sent to delivery.
    /// Default 0.
    pub one_way_delay: Duration,
    /// Extra delay of each packet, uniform in `0..=jitter`. A packet never
    /// overtakes the one before it by jitter: it then leaves together with it.
    /// Default 0.
    pub jitter: Duration,
    /// Loss on the wire, after the transmitter: lost packets take their share of
    /// the rate, as on a radio or long-distance link behind the bottleneck.
    /// Default none.
    pub loss: Loss,
    /// Which packets others may overtake. Default none.
    pub reorder: Reorder,
    /// Room for packets that wait for the transmitter; the one being sent does
    /// not count. Default 1000 packets.
    pub queue: QueueLimit,
    /// When the queue tells of congestion by a mark (RFC 3168). Default never.
    pub ecn: Ecn,
    /// Whether UDP is treated as other protocols are. Default the same.
    pub udp: UdpPolicy,
    /// Bytes that the wire adds to each packet, for rate and queue. Default 14,
    /// an Ethernet header without its checksum, as `tc` counts on Ethernet. Does
    /// not count under a [`Capacity::Trace`].
    pub overhead: u32,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: Capacity::Unlimited,
            one_way_delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: Loss::None,
            reorder: Reorder::None,
            queue: QueueLimit::Packets(1000),
            ecn: Ecn::Off,
            udp: UdpPolicy::Same,
            overhead: 14,
        }
    }
}

/// How fast packets leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Capacity {
    /// At once: nothing ever waits in the queue. As text `unlimited`.
    #[default]
    Unlimited,
    /// At a constant rate, counted in wire bytes (see [`LinkConfig::overhead`]).
    /// A rate of zero is an outage: nothing leaves until the rate changes.
    Rate(Rate),
    /// As a recorded link did, see [`Trace`].
    Trace(Trace),
}

impl From<Rate> for Capacity {
    fn from(rate: Rate) -> Self {
        Self::Rate(rate)
    }
}

/// Room in the queue. A packet that does not fit on arrival is dropped (drop
/// tail); an idle transmitter takes any packet.
///
/// As text `150KiB`, `100 packets` or `50ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Wire bytes that may wait.
    Bytes(u64),
    /// Packets that may wait.
    Packets(u32),
    /// Time that an accepted packet may wait before its first bit is sent, at the
    /// rate of its arrival.
    Time(Duration),
}

/// How packets are lost on the wire.
///
/// As text `0.1%`, or a table such as
/// `{ p = "0.2%", r = "10%", good = "0%", bad = "30%" }`.
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

/// Which packets arrive out of order.
///
/// As text `off`, or a table such as `{ share = "1%", extra_delay = "5ms" }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reorder {
    /// None: packets arrive in the order in which they were sent.
    #[default]
    None,
    /// A share of the packets is held back, drawn independently; those behind may
    /// overtake it. All others keep their order among each other.
    HoldBack {
        /// Chance of each packet, parts per million.
        share_ppm: u32,
        /// What is added to its delay and jitter.
        extra_delay: Duration,
    },
}

/// Explicit congestion notification.
///
/// As text `off`, or the threshold: `5ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The queue never marks.
    #[default]
    Off,
    /// A packet whose sender can take it (ECT) is marked CE when it waited longer
    /// than this for its first bit to be sent: a step as DCTCP (RFC 8257 §3.1)
    /// and L4S (RFC 9332 §4.1) queues have. Other packets pass; what does not fit
    /// is dropped as ever.
    Step(Duration),
}

/// How a middlebox in front of the queue treats UDP, and so QUIC.
///
/// As text `same`, `drop`, or a rate to limit it to: `2Mbps`, whose queue is
/// [`UdpPolicy::LIMIT_QUEUE`]; with another queue a table such as
/// `{ rate = "2Mbps", queue = "20 packets" }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UdpPolicy {
    /// As every other protocol.
    #[default]
    Same,
    /// It is thrown away.
    Drop,
    /// All of it together is shaped to a rate, and then goes the way of the
    /// other packets. When the limit goes, packets inside it still leave at its
    /// last rate.
    Limit {
        /// Rate of the shaper, counted in wire bytes.
        rate: Rate,
        /// Room for packets that wait for the shaper.
        queue: QueueLimit,
    },
}

impl UdpPolicy {
    /// Queue of a limit that is given as a rate alone: 100 ms.
    pub const LIMIT_QUEUE: QueueLimit = QueueLimit::Time(Duration::from_millis(100));
}

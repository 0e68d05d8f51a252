//! The properties of a link.

use std::time::Duration;

use hikyaku_units::{LossRate, Rate};
use serde::{Deserialize, Serialize};

use crate::patch::LinkPatch;
use crate::trace::Trace;

/// One direction of a network path.
///
/// TOML and JSON use a table with the same keys, each optional and with its unit;
/// `trace` may replace `rate`. A link is written with every key.
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
    /// Rate of the transmitter. Default unlimited.
    pub rate: Capacity,
    /// Propagation delay: the smallest time from the last bit sent to delivery.
    /// Default 0.
    pub one_way_delay: Duration,
    /// Extra delay of each packet, uniform in `0..=jitter`. Jitter never lets a
    /// packet overtake the one before it: the two then leave together. Default 0.
    pub jitter: Duration,
    /// Loss on the wire, after the transmitter. Lost packets take their share of
    /// the rate, as on a radio or long-distance link behind the bottleneck.
    /// Default none.
    pub loss: Loss,
    /// The packets that others may overtake. Default none.
    pub reorder: Reorder,
    /// Room for packets that wait for the transmitter. The one being sent does
    /// not count. Default 1000 packets.
    pub queue: QueueLimit,
    /// The condition on which the queue marks a packet for congestion (RFC 3168).
    /// Default never.
    pub ecn: Ecn,
    /// The treatment of UDP by a middlebox. Default that of the other protocols.
    pub udp: UdpPolicy,
    /// Bytes that the wire adds to each packet, for rate and queue. Default 14:
    /// an Ethernet header without its checksum, as `tc` counts on Ethernet. A
    /// [`Capacity::Trace`] ignores it.
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

/// The rate at which packets leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Capacity {
    /// Packets leave at once, and none waits in the queue. As text `unlimited`.
    #[default]
    Unlimited,
    /// A constant rate, counted in wire bytes ([`LinkConfig::overhead`]). A rate
    /// of zero is an outage: nothing leaves until the rate changes.
    Rate(Rate),
    /// The sending times of a recorded link ([`Trace`]).
    Trace(Trace),
}

impl From<Rate> for Capacity {
    fn from(rate: Rate) -> Self {
        Self::Rate(rate)
    }
}

/// Room in the queue. A packet that does not fit on arrival is dropped (drop
/// tail). An idle transmitter takes any packet.
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

/// Loss of packets on the wire.
///
/// As text `0.1%`, or a table such as `{ p = "0.2%", r = "10%", good = "0%", bad
/// = "30%" }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// No packet is lost.
    #[default]
    None,
    /// Each packet is lost with the same probability, independently.
    Bernoulli(LossRate),
    /// Losses in bursts: a two-state Markov chain that starts in the good state.
    /// The loss rate of the state decides each packet, and then the state may
    /// change. The mean loss is `(r × loss_good + p × loss_bad) / (p + r)`; a bad
    /// period lasts `1 / r` packets on average. The parameters are those of
    /// Gilbert (1960) and Elliott (1963). They are also those of `tc netem loss
    /// gemodel`, whose `1-h` and `1-k` are the losses here.
    GilbertElliott {
        /// Probability per packet of going from good to bad, in parts per
        /// million.
        p_ppm: u32,
        /// Probability per packet of going from bad to good, in parts per
        /// million.
        r_ppm: u32,
        /// Loss in the good state.
        loss_good: LossRate,
        /// Loss in the bad state.
        loss_bad: LossRate,
    },
}

/// The packets that arrive out of order.
///
/// As text `off`, or a table such as `{ share = "1%", extra_delay = "5ms" }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reorder {
    /// Packets arrive in the order in which they were sent.
    #[default]
    None,
    /// A share of the packets is held back, drawn independently. Packets behind
    /// them may overtake them. All others keep their order among each other.
    HoldBack {
        /// Probability of each packet, in parts per million.
        share_ppm: u32,
        /// Time that is added to the packet's delay and jitter.
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
    /// A packet whose sender can take it (ECT) is marked CE if its first bit
    /// waited longer than this threshold. It is a step as queues of DCTCP (RFC
    /// 8257 §3.1) and L4S (RFC 9332 §4.1) have it. Other packets pass, and
    /// packets that do not fit are dropped.
    Step(Duration),
}

/// The treatment of UDP, and so of QUIC, by a middlebox in front of the queue.
///
/// As text `same`, `drop`, or a rate such as `2Mbps` with
/// [`UdpPolicy::LIMIT_QUEUE`] as its queue. Another queue needs a table such as
/// `{ rate = "2Mbps", queue = "20 packets" }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UdpPolicy {
    /// UDP is treated as every other protocol.
    #[default]
    Same,
    /// Every UDP packet is dropped.
    Drop,
    /// All UDP packets together are shaped to a rate, and then join the other
    /// packets. After the end of the limit, packets inside the shaper still leave
    /// at its last rate.
    Limit {
        /// Rate of the shaper, counted in wire bytes.
        rate: Rate,
        /// Room for packets that wait for the shaper.
        queue: QueueLimit,
    },
}

impl UdpPolicy {
    /// Queue of a limit that consists of a rate alone: 100 ms.
    pub const LIMIT_QUEUE: QueueLimit = QueueLimit::Time(Duration::from_millis(100));
}

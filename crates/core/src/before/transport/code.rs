//! Codes of reasons for a version, for logs and metrics.

/// The code that a [`Reason`] is counted by.
///
/// [`Reason`]: super::Reason
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReasonCode {
    /// `pinned`.
    Pinned,
    /// `hold_back`.
    HoldBack,
    /// `too_few_samples`.
    TooFewSamples,
    /// `not_comparable`.
    NotComparable,
    /// `udp_never_came`.
    UdpNeverCame,
    /// `udp_broken`.
    UdpBroken,
    /// `udp_throttled`.
    UdpThrottled,
    /// `udp_probe`.
    UdpProbe,
    /// `quic_loss`.
    QuicLoss,
    /// `explore`.
    Explore,
    /// `trial`.
    Trial,
    /// `h3_faster`.
    H3Faster,
    /// `h2_faster`.
    H2Faster,
    /// `h3_kept`.
    H3Kept,
    /// `h2_kept`.
    H2Kept,
}

impl ReasonCode {
    /// All, in the order of their indices.
    pub const ALL: [Self; 15] = [
        Self::Pinned,
        Self::HoldBack,
        Self::TooFewSamples,
        Self::NotComparable,
        Self::UdpNeverCame,
        Self::UdpBroken,
        Self::UdpThrottled,
        Self::UdpProbe,
        Self::QuicLoss,
        Self::Explore,
        Self::Trial,
        Self::H3Faster,
        Self::H2Faster,
        Self::H3Kept,
        Self::H2Kept,
    ];

    /// A stable name in snake case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::HoldBack => "hold_back",
            Self::TooFewSamples => "too_few_samples",
            Self::NotComparable => "not_comparable",
            Self::UdpNeverCame => "udp_never_came",
            Self::UdpBroken => "udp_broken",
            Self::UdpThrottled => "udp_throttled",
            Self::UdpProbe => "udp_probe",
            Self::QuicLoss => "quic_loss",
            Self::Explore => "explore",
            Self::Trial => "trial",
            Self::H3Faster => "h3_faster",
            Self::H2Faster => "h2_faster",
            Self::H3Kept => "h3_kept",
            Self::H2Kept => "h2_kept",
        }
    }

    /// The position in an array that has an element for each.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

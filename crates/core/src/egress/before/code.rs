//! Codes of reasons for a route, for logs and metrics.

/// The code that a [`RouteReason`] is counted by.
///
/// [`RouteReason`]: super::RouteReason
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteReasonCode {
    /// `only`.
    Only,
    /// `pinned`.
    Pinned,
    /// `pinned_missing`.
    PinnedMissing,
    /// `policy`.
    Policy,
    /// `hold_back`.
    HoldBack,
    /// `too_few_samples`.
    TooFewSamples,
    /// `no_gain`.
    NoGain,
    /// `more_goodput`.
    MoreGoodput,
    /// `fewer_stalls`.
    FewerStalls,
    /// `shorter_rtt`.
    ShorterRtt,
    /// `less_loss`.
    LessLoss,
    /// `kept`.
    Kept,
    /// `stalled`.
    Stalled,
    /// `explore`.
    Explore,
}

impl RouteReasonCode {
    /// All, in the order of their indices.
    pub const ALL: [Self; 14] = [
        Self::Only,
        Self::Pinned,
        Self::PinnedMissing,
        Self::Policy,
        Self::HoldBack,
        Self::TooFewSamples,
        Self::NoGain,
        Self::MoreGoodput,
        Self::FewerStalls,
        Self::ShorterRtt,
        Self::LessLoss,
        Self::Kept,
        Self::Stalled,
        Self::Explore,
    ];

    /// A stable name in snake case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Only => "only",
            Self::Pinned => "pinned",
            Self::PinnedMissing => "pinned_missing",
            Self::Policy => "policy",
            Self::HoldBack => "hold_back",
            Self::TooFewSamples => "too_few_samples",
            Self::NoGain => "no_gain",
            Self::MoreGoodput => "more_goodput",
            Self::FewerStalls => "fewer_stalls",
            Self::ShorterRtt => "shorter_rtt",
            Self::LessLoss => "less_loss",
            Self::Kept => "kept",
            Self::Stalled => "stalled",
            Self::Explore => "explore",
        }
    }

    /// The position in an array that has an element for each.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

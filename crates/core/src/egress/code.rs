//! Codes of reasons for a route, for logs and metrics.

/// What a [`RouteReason`] is counted as.
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

#[cfg(test)]
mod tests {
    use super::RouteReasonCode as Code;

    #[test]
    fn every_code_is_counted_at_its_index() {
        let next = |code| match code {
            Code::Only => Some(Code::Pinned),
            Code::Pinned => Some(Code::PinnedMissing),
            Code::PinnedMissing => Some(Code::Policy),
            Code::Policy => Some(Code::HoldBack),
            Code::HoldBack => Some(Code::TooFewSamples),
            Code::TooFewSamples => Some(Code::NoGain),
            Code::NoGain => Some(Code::MoreGoodput),
            Code::MoreGoodput => Some(Code::FewerStalls),
            Code::FewerStalls => Some(Code::ShorterRtt),
            Code::ShorterRtt => Some(Code::LessLoss),
            Code::LessLoss => Some(Code::Kept),
            Code::Kept => Some(Code::Stalled),
            Code::Stalled => Some(Code::Explore),
            Code::Explore => None,
        };
        let all: Vec<_> = std::iter::successors(Some(Code::Only), |code| next(*code)).collect();
        assert_eq!(all, Code::ALL);
        assert!(all.iter().enumerate().all(|(at, code)| code.index() == at));
    }
}

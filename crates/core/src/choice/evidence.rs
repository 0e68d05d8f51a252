//! How much is known.

/// Samples, and how many it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Samples so far; those of neighbours count in part.
    pub samples: f32,
    /// Samples that it takes.
    pub needed: u32,
}

impl Evidence {
    /// Whether there are enough.
    pub(crate) fn is_enough(self) -> bool {
        self.samples + FADED >= self.needed as f32
    }

    /// The share of the samples that it takes, at most 1; 0 for fewer than two, which show nothing.
    pub(crate) fn share(self) -> f32 {
        let needed = self.needed as f32;
        let samples = self.samples.min(needed) + FADED;
        if samples < MIN_SAMPLES.min(needed) {
            return 0.0;
        }
        (samples / needed).min(1.0)
    }
}

/// The part of a sample that may be lacking, since samples fade a little.
const FADED: f32 = 0.5;
/// Samples below which nothing is concluded from them.
const MIN_SAMPLES: f32 = 2.0;

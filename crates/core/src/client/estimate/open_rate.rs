//! What a path delivers where nothing but the path limits it.

/// Natural logarithm of the delivery rate in bit/s that a transport has shown where neither losses nor
/// the application limited it; 0 while unknown.
///
/// CUBIC's rate at random losses is its own doing. What BBR or a floor would get there, only such
/// samples tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OpenRate(pub(crate) f32);

impl OpenRate {
    /// Takes a sample, of which the last `window` dominate.
    pub(crate) fn push(&mut self, log_rate: f32, window: f32) {
        let share = if self.0 > 0.0 {
            1.0 / window.max(1.0)
        } else {
            1.0
        };
        self.0 += share * (log_rate - self.0);
    }

    pub(crate) fn get(self) -> Option<f32> {
        (self.0 > 0.0).then_some(self.0)
    }
}

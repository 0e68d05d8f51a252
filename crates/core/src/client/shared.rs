//! The knowledge of client prefixes that several edges share: the contribution of each, and their total.

mod contribution;
mod contributions;
mod hold;
mod remote;
mod statistic;
mod stats;

pub use contribution::{Contribution, MAX_ENCODED_LEN};
pub use contributions::Contributions;
pub(crate) use hold::{Hold, WasRead};
pub(crate) use remote::{PackedRemote, with_pop};
pub use remote::{Remote, RemoteLevel};
pub use statistic::Statistic;

#[cfg(test)]
mod tests;

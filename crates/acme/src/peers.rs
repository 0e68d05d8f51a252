//! The other servers of a fleet, which have accounts, certificates and answers in common with this one.

use std::fmt;
use std::pin::Pin;

/// Something that is waited for.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that the servers of a fleet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Common {
    /// An account at an authority.
    Account,
    /// A certificate with its key, and the state of its orders.
    Certificate,
    /// Answers to an authority that checks names now.
    Challenge,
}

/// A content that this server gives to the others.
#[derive(Clone, PartialEq, Eq)]
pub struct Given {
    /// When it was made, in seconds since the Unix epoch, and a number among those of that second. The larger
    /// one stands at all servers.
    pub stamp: (i64, i64),
    /// When it is void, in seconds since the Unix epoch.
    pub until: i64,
    /// A title for people.
    pub title: String,
    /// The content, which is a secret.
    pub content: Vec<u8>,
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Given").field(&self.title).finish()
    }
}

/// The outcome of asking to be the one server that orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This server is it, for half a minute. It asks again meanwhile to go on.
    Own,
    /// Another one is.
    Elsewhere,
    /// Nobody can be asked.
    Unknown,
}

/// The other servers of a fleet. While they can't be reached, a server does all by itself.
pub trait Peers: Send + Sync + 'static {
    /// Waits until it is known what the others have. `false`: there are none, or they can't be reached.
    fn ready(&self) -> Pending<'_, bool>;
    /// The content that stands.
    fn content(&self, common: Common, name: &str) -> Option<Vec<u8>>;
    /// All contents that stand.
    fn contents(&self, common: Common) -> Vec<Vec<u8>>;
    /// Gives a content to the others, soon.
    fn give(&self, common: Common, name: &str, given: Given);
    /// Takes a content from the others, soon.
    fn take_back(&self, common: Common, name: &str);
    /// Waits until all that was given is there for the others, and what they gave is here, as far as that can be.
    fn exchanged(&self) -> Pending<'_, ()>;
    /// Waits until the others have an answer, or for as long as that is worth it.
    fn acknowledged<'a>(&'a self, name: &'a str) -> Pending<'a, ()>;
    /// Asks to be the one server that orders something.
    fn turn<'a>(&'a self, common: Common, name: &'a str) -> Pending<'a, Turn>;
    /// Lets another server have the turn.
    fn end_turn<'a>(&'a self, common: Common, name: &'a str) -> Pending<'a, ()>;
}

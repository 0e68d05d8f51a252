//! Parts of the state in force, each for the component that needs it.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use arc_swap::access::{DynAccess, DynGuard, Map};

/// A part of a whole that a reload replaces by one pointer. So whoever has seen a part of the new
/// whole never sees a part of the former one again.
pub(crate) struct Part<T>(Box<dyn DynAccess<Arc<T>> + Send + Sync>);

impl<T: Send + Sync + 'static> Part<T> {
    pub(crate) fn of<W>(whole: &Arc<ArcSwap<W>>, part: fn(&W) -> &Arc<T>) -> Self
    where
        W: Send + Sync + 'static,
    {
        Self(Box::new(Map::new(Arc::clone(whole), part)))
    }

    /// The part in force.
    pub(crate) fn load(&self) -> DynGuard<Arc<T>> {
        self.0.load()
    }

    /// The part in force, to be kept over an `await`.
    pub(crate) fn load_full(&self) -> Arc<T> {
        Arc::clone(&self.load())
    }
}

impl<T> fmt::Debug for Part<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Part")
    }
}

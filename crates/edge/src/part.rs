//! State that a reload replaces as a whole, and its parts, each for the component that needs it.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

/// A whole that is replaced by one pointer. So whoever has seen a part of the new whole never sees a part of
/// the former one again.
pub(crate) struct Whole<W> {
    current: Arc<ArcSwap<Erased>>,
    of: PhantomData<fn() -> W>,
}

/// A part of a [`Whole`], for those who do not know the type of the whole.
pub(crate) struct Part<T> {
    current: Arc<ArcSwap<Erased>>,
    projection: Box<Projection<Arc<T>>>,
}

/// A look at state in force. It allocates nothing, and counts nothing that threads share.
/// A thread has room for a few at a time, so none is kept over an `await`.
pub(crate) struct Look<'a, T> {
    whole: Guard<Arc<Erased>>,
    projection: &'a Projection<T>,
}

type Erased = Box<dyn Any + Send + Sync>;
type Projection<T> = dyn Fn(&Erased) -> &T + Send + Sync;

impl<W: Send + Sync + 'static> Whole<W> {
    pub(crate) fn new(whole: W) -> Self {
        Self {
            current: Arc::new(ArcSwap::from_pointee(Box::new(whole))),
            of: PhantomData,
        }
    }

    pub(crate) fn part<T: 'static>(&self, part: fn(&W) -> &Arc<T>) -> Part<T> {
        Part {
            current: Arc::clone(&self.current),
            projection: Box::new(move |whole| part(typed(whole))),
        }
    }

    /// The whole in force.
    pub(crate) fn load(&self) -> Look<'static, W> {
        Look {
            whole: self.current.load(),
            projection: &typed::<W>,
        }
    }

    /// Puts another whole into force.
    pub(crate) fn replace(&self, whole: W) {
        self.current.store(Arc::new(Box::new(whole)));
    }
}

/// A whole with its type again; only [`Whole::new`] and [`Whole::replace`] make an [`Erased`].
fn typed<W: 'static>(whole: &Erased) -> &W {
    whole.downcast_ref().expect("it was erased as this type")
}

impl<T> Part<T> {
    /// The part in force.
    pub(crate) fn load(&self) -> Look<'_, Arc<T>> {
        Look {
            whole: self.current.load(),
            projection: &*self.projection,
        }
    }

    /// The part in force, to be kept over an `await`.
    pub(crate) fn load_full(&self) -> Arc<T> {
        Arc::clone(&self.load())
    }
}

impl<T> Deref for Look<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        (self.projection)(&self.whole)
    }
}

impl<W> fmt::Debug for Whole<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Whole")
    }
}

impl<T> fmt::Debug for Part<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Part")
    }
}

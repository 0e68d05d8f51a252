//! Tasks that wait for events.

use std::task::{Context, Waker};

/// Tasks that wait for one event; all are woken by it.
#[derive(Debug, Default)]
pub(crate) struct Wakers(Vec<Waker>);

impl Wakers {
    /// Adds the task of `cx`, unless it waits already.
    pub(crate) fn add(&mut self, cx: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.0.push(cx.waker().clone());
        }
    }

    /// Wakes all, and returns how many they were.
    pub(crate) fn wake(&mut self) -> usize {
        let count = self.0.len();
        self.0.drain(..).for_each(Waker::wake);
        count
    }
}

/// A task that waits for one event.
#[derive(Debug, Default)]
pub(crate) struct Slot(Option<Waker>);

impl Slot {
    /// Has the task of `cx` woken, in place of another one.
    pub(crate) fn set(&mut self, cx: &Context<'_>) {
        match &mut self.0 {
            Some(waker) => waker.clone_from(cx.waker()),
            empty @ None => *empty = Some(cx.waker().clone()),
        }
    }

    /// Whether no task waits.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Forgets the task.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// Wakes it, and returns how many they were: 0 or 1.
    pub(crate) fn wake(&mut self) -> usize {
        self.0.take().map(Waker::wake).map_or(0, |()| 1)
    }
}

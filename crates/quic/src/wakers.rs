//! Tasks that wait for events.

use std::task::{Context, Waker};

/// Tasks that wait for one event; all are woken by it. The first one takes no allocation.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    first: Slot,
    others: Vec<Waker>,
}

impl Wakers {
    /// Adds the task of `cx`, unless it waits already.
    pub(crate) fn add(&mut self, cx: &Context<'_>) {
        let mut all = self.first.0.iter().chain(&self.others);
        if all.any(|waker| waker.will_wake(cx.waker())) {
            return;
        }
        match self.first.is_empty() {
            true => self.first.set(cx),
            false => self.others.push(cx.waker().clone()),
        }
    }

    /// Wakes all, and returns how many they were.
    pub(crate) fn wake(&mut self) -> usize {
        let others = std::mem::take(&mut self.others);
        let count = self.first.wake() + others.len();
        others.into_iter().for_each(Waker::wake);
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

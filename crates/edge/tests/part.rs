//! A look at a part of the state in force allocates nothing, by an allocator that counts.
#![allow(dead_code, missing_docs, reason = "a test of one module")]

#[path = "../src/part.rs"]
mod part;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use part::Whole;

struct Counting;

thread_local! {
    /// Allocations of this thread.
    static MADE: Cell<u32> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system's allocator unchanged; they are only counted.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MADE.set(MADE.get() + 1);
        // SAFETY: the caller's obligations are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(of: impl FnOnce()) -> u32 {
    let before = MADE.get();
    of();
    MADE.get() - before
}

#[test]
fn a_look_allocates_nothing() {
    let whole = Whole::new((Arc::new(1), Arc::new('a')));
    let (number, letter) = (whole.part(|(n, _)| n), whole.part(|(_, l)| l));
    // The first look of a thread makes its slots.
    assert_eq!((**number.load(), *letter.load_full()), (1, 'a'));
    assert_eq!(allocations(|| drop(Box::new(1))), 1, "they are counted");
    let looks = allocations(|| {
        let (number, letter) = (number.load(), letter.load());
        assert_eq!((**number, **letter), (1, 'a'));
    });
    assert_eq!(looks, 0);
    whole.replace((Arc::new(2), Arc::new('b')));
    let looks = allocations(|| {
        assert_eq!((**number.load(), *letter.load_full()), (2, 'b'));
    });
    assert_eq!(looks, 0);
}

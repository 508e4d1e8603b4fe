//! An allocator that counts.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait; every call goes to the system's")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: memory comes from the system's allocator, and goes back to it, with what the caller passed unchanged.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller keeps to what `GlobalAlloc` asks; so does the call.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller keeps to what `GlobalAlloc` asks; so does the call.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    // `realloc` is the trait's own: a new piece, a copy, and the old piece back. So both count while it lasts.
}

/// What `run` gives, and how many bytes it had at most at a time, besides those that were there before.
pub(crate) fn most_bytes<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let result = run();
    (result, MOST.load(Relaxed) - before)
}

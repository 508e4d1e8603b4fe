//! An allocator that counts.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait; every call goes to the system's")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static TIMES: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counting. A test program that measures has it as its `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

// SAFETY: memory comes from the system's allocator, and goes back to it, with what the caller passed unchanged.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller keeps to what `GlobalAlloc` asks; so does the call.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        TIMES.fetch_add(1, Relaxed);
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
///
/// # Panics
/// [`Counting`] is not the program's allocator: then nothing would be counted, and every bound kept.
pub fn most_bytes<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Relaxed);
    must_be_counting();
    MOST.store(before, Relaxed);
    let result = run();
    (result, MOST.load(Relaxed) - before)
}

/// What `run` gives, and how many pieces of memory it asked for, larger ones in place of smaller ones included.
///
/// # Panics
/// As [`most_bytes`].
pub fn allocations<T>(run: impl FnOnce() -> T) -> (T, usize) {
    must_be_counting();
    let before = TIMES.load(Relaxed);
    let result = run();
    (result, TIMES.load(Relaxed) - before)
}

fn must_be_counting() {
    assert_ne!(TIMES.load(Relaxed), 0, "`Counting` is not this program's allocator");
}

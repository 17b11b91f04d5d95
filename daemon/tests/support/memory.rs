//! An allocator that counts, so that a test can say how much an input made the daemon take.
#![expect(
    unsafe_code,
    reason = "an allocator is unsafe by its trait; it only counts and passes on"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts what is allocated.
pub struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grew(by: usize) {
    PEAK.fetch_max(NOW.fetch_add(by, Relaxed) + by, Relaxed);
}

// SAFETY: every call goes to the system's allocator with what it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may exist for a moment.
        grew(size);
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// What was taken above what is taken now, at most, since [`Peak::begin`].
pub struct Peak {
    base: usize,
}

impl Peak {
    /// Begins to look. Nothing else of the process may be busy.
    pub fn begin() -> Self {
        let base = NOW.load(Relaxed);
        PEAK.store(base, Relaxed);
        Self { base }
    }

    /// The most that was taken since, in bytes.
    pub fn taken(&self) -> usize {
        PEAK.load(Relaxed).saturating_sub(self.base)
    }
}

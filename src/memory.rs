//! The module's allocator: hands out memory in order, and takes all of it back before the next call.
//!
//! PolicyServer makes a new instance for each request, and no call leaves anything to the next one. So searching for
//! free blocks would cost more than it saves: time, pages of memory that are touched, and 7 KB of the module. A host
//! that keeps an instance pays for its largest call, not for their number.
#![expect(unsafe_code, reason = "an allocator is unsafe by its trait")]

use std::alloc::{GlobalAlloc, Layout};
use std::arch::wasm32::{memory_grow, memory_size};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE: usize = 64 * 1024;
/// How many pages the memory grows by at least: each time costs a system call of the host.
const MIN_GROWTH: usize = 16;

#[global_allocator]
static ARENA: Arena = Arena { next: AtomicUsize::new(0) };

unsafe extern "C" {
    /// Where the linker's own data ends.
    static __heap_base: u8;
}

struct Arena {
    /// The first byte that is free; 0 before the first allocation.
    next: AtomicUsize,
}

/// Takes back all memory.
///
/// # Safety
///
/// Nothing that was allocated before may be used afterwards.
pub(crate) unsafe fn reset() {
    ARENA.set_next(0);
}

impl Arena {
    fn next(&self) -> usize {
        self.next.load(Ordering::Relaxed).max((&raw const __heap_base).addr())
    }

    fn set_next(&self, next: usize) {
        self.next.store(next, Ordering::Relaxed);
    }

    /// Takes the bytes from `start` on; null if the host gives no more memory.
    fn take(&self, start: usize, size: usize) -> *mut u8 {
        let Some(end) = start.checked_add(size) else { return ptr::null_mut() };
        let missing = end.div_ceil(PAGE).saturating_sub(memory_size(0));
        if missing > 0
            && memory_grow(0, missing.max(MIN_GROWTH)) == usize::MAX
            && memory_grow(0, missing) == usize::MAX
        {
            return ptr::null_mut();
        }
        self.set_next(end);
        ptr::with_exposed_provenance_mut(start)
    }

    fn is_last(&self, block: *mut u8, size: usize) -> bool {
        block.addr() + size == self.next()
    }
}

// SAFETY: blocks do not overlap: each begins where all before it ended, except that the last one can be taken back or
// change its size. A Wasm module has one thread.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.next().checked_next_multiple_of(layout.align()) {
            Some(start) => self.take(start, layout.size()),
            None => ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if self.is_last(block, layout.size()) {
            self.set_next(block.addr());
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if self.is_last(block, layout.size()) {
            return self.take(block.addr(), size);
        }
        if size <= layout.size() {
            return block;
        }
        // SAFETY: the caller guarantees a valid size; the new block is larger than the old one and elsewhere.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size());
            }
            new
        }
    }
}

//! Does a warm fingerprinter allocate?

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use waggle_digest::{
    Fingerprinter, SUMMARY_BYTES_MAX, carries_secret, comments, digest_id, hash64, summary,
};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's guarantees are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// One test in this file: the counter is of the whole process.
#[test]
fn a_warm_fingerprinter_allocates_nothing() {
    let statements: Vec<&str> = include_str!("golden.tsv").lines().collect();
    let mut fingerprinter = Fingerprinter::new();
    let mut words = String::with_capacity(SUMMARY_BYTES_MAX);
    let mut pass = || {
        let mut sum = 0;
        for statement in &statements {
            let sql = statement.as_bytes();
            sum ^= u64::from(carries_secret(sql));
            summary(sql, &mut words);
            sum ^= hash64(words.as_bytes()) ^ comments(sql).len() as u64;
            sum ^= hash64(fingerprinter.fingerprint_truncated(sql).text);
            let fingerprint = fingerprinter.fingerprint(sql);
            sum ^= hash64(fingerprint) ^ digest_id(fingerprint).0;
        }
        sum
    };
    let cold = pass();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    assert_eq!(pass(), cold);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);
}

//! The number of reads of a hit, as the Linux kernel counts.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "this test asks the kernel")]

use std::fs;

use crate::common::room::{entry, filling};
use crate::common::{fresh, hit, key};

/// The number of reads of this thread so far, without this one.
fn reads() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").unwrap();
    text.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap().parse().unwrap()
}

#[test]
fn a_hit_is_one_read_however_large_the_entry() {
    let (_dir, store) = fresh();
    for bytes in [500, 9000, 20_000, 1 << 20, 40 << 20] {
        let key = key(&bytes.to_string());
        store.put(&key, &entry(&filling(bytes), std::time::Duration::ZERO)).unwrap();
        let asking = {
            let before = reads();
            reads() - before
        };
        let before = reads();
        let entry = hit(&store, &key);
        assert_eq!((reads() - before - asking, entry.file_bytes()), (1, bytes));
    }
}

//! The sizes of the entries of a target, as far as they are known. They decide for how many entries one call asks: an engine has its
//! answer in memory as a whole, and a host much of it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The size of an answer that is aimed at.
const ANSWER_BYTES: u64 = 16 << 20;
/// The size of an entry as long as nothing is known. A small one: the first call asks for so many entries that most networks need no
/// other one.
const GUESSED_BYTES: u64 = 64 << 10;
/// A call asks for so many times the entries of the last one at most, while none arrives: they are probably missing.
const GROWTH: u64 = 4;
/// From this number of entries on, those that arrived long ago count less.
const MANY: u64 = 256;

/// What is known of the sizes. Nothing here is locked: a lost update makes an estimate worse, and a forked child may use its copy.
#[derive(Debug)]
pub(crate) struct AnswerSizes {
    /// The mean size of the entries in the last answer that had some.
    last: AtomicU64,
    /// The number and the size of the entries that arrived.
    count: AtomicU64,
    bytes: AtomicU64,
    /// The number of entries for which a call asks while none arrives; 0 after some have arrived.
    untried: AtomicU64,
}

impl AnswerSizes {
    pub(crate) fn new() -> Self {
        let (last, count, bytes) = Default::default();
        Self { last, count, bytes, untried: AtomicU64::new(ANSWER_BYTES / GUESSED_BYTES) }
    }

    /// Whether the size of an entry is known.
    pub(crate) fn are_known(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Returns the number of entries for which one call asks, `most` at most, and 1 at least.
    pub(crate) fn keys(&self, most: usize) -> usize {
        let known = match self.count.load(Relaxed) {
            0 => 0,
            count => {
                let mean = self.bytes.load(Relaxed).div_ceil(count).max(self.last.load(Relaxed));
                ANSWER_BYTES / mean.max(1)
            }
        };
        let keys = known.max(self.untried.load(Relaxed));
        usize::try_from(keys).unwrap_or(usize::MAX).min(most).max(1)
    }

    /// Records that of `asked` entries `found` exist, which are `bytes` long together.
    pub(crate) fn note(&self, asked: usize, found: usize, bytes: u64) {
        if found == 0 {
            self.untried.fetch_max((asked as u64).saturating_mul(GROWTH), Relaxed);
            return;
        }
        self.untried.store(0, Relaxed);
        let found = found as u64;
        self.last.store(bytes.div_ceil(found), Relaxed);
        let (count, all) = (self.count.load(Relaxed), self.bytes.load(Relaxed));
        let (count, all) = if count > MANY { (count / 2, all / 2) } else { (count, all) };
        self.bytes.store(all + bytes, Relaxed);
        self.count.store(count + found, Relaxed);
    }
}

/// The entries of one answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    found: usize,
    bytes: u64,
}

impl Sizes {
    pub(super) fn add(&mut self, content: &[u8]) {
        self.found += 1;
        self.bytes += content.len() as u64;
    }

    /// Records the answer to a call for the entries of `asked` keys. If it `is_complete`, what was not found is missing.
    pub(super) fn note(self, sizes: &AnswerSizes, asked: usize, is_complete: bool) {
        if self.found > 0 || is_complete {
            sizes.note(asked, self.found, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1024;
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    #[test]
    fn few_entries_are_asked_for_until_their_size_is_known() {
        let sizes = AnswerSizes::new();
        assert_eq!((sizes.keys(MOST), sizes.keys(3), sizes.are_known()), (256, 3, false));
        sizes.note(16, 16, 16 * 15 * KIB);
        assert_eq!((sizes.keys(MOST), sizes.are_known()), (MOST, true), "small ones");
        let sizes = AnswerSizes::new();
        sizes.note(16, 2, 40 * MIB);
        assert_eq!(sizes.keys(MOST), 1, "larger than an answer");
    }

    /// A host that knows large entries asks for a plan of which the engine has none.
    #[test]
    fn known_sizes_make_no_call_for_each_missing_entry() {
        let sizes = AnswerSizes::new();
        sizes.note(16, 2, 40 * MIB);
        let mut asked = Vec::new();
        for _ in 0..6 {
            asked.push(sizes.keys(MOST));
            sizes.note(sizes.keys(MOST), 0, 0);
        }
        assert_eq!(asked, [1, 4, 16, 64, 256, MOST]);
        sizes.note(MOST, 1, 20 * MIB);
        assert_eq!(sizes.keys(MOST), 1, "some have arrived");
    }

    #[test]
    fn more_are_asked_for_while_all_are_missing() {
        let sizes = AnswerSizes::new();
        let mut asked = Vec::new();
        for _ in 0..3 {
            asked.push(sizes.keys(MOST));
            sizes.note(sizes.keys(MOST), 0, 0);
        }
        assert_eq!(asked, [256, MOST, MOST]);
        // A call for few says nothing of many, and does not undo what larger ones found.
        sizes.note(1, 0, 0);
        assert_eq!(sizes.keys(MOST), MOST);
    }

    /// Whatever the sizes, an answer has no more than the aim, if its entries are as large as those before.
    #[test]
    fn answers_stay_about_as_large_as_is_aimed_at() {
        for size in [1, 15 * KIB, 300 * KIB, MIB, 9 * MIB, 100 * MIB] {
            let sizes = AnswerSizes::new();
            sizes.note(16, 16, 16 * size);
            let keys = sizes.keys(MOST) as u64;
            assert!(keys == 1 || keys * size <= ANSWER_BYTES, "{size}");
            assert!(keys == MOST as u64 || (keys + 1) * size > ANSWER_BYTES, "{size}");
        }
        // Entries become large, and small again.
        let sizes = AnswerSizes::new();
        sizes.note(500, 500, 500 * KIB);
        sizes.note(1, 1, 30 * MIB);
        assert_eq!(sizes.keys(MOST), 1);
        let mut calls = 0;
        while sizes.keys(MOST) < 128 {
            let keys = sizes.keys(MOST);
            sizes.note(keys, keys, keys as u64 * KIB);
            calls += 1;
        }
        assert!(calls < 10, "{calls}");
    }
}

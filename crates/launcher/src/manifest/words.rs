//! The words in the texts that a command read: the names by which it can look for a module.

use std::collections::HashMap;

/// The number of bits for each word, and how many of them are set for it: one in a hundred other words seems to be there, too.
const BITS: usize = 10;
const HASHES: u64 = 7;
const MIN_BYTES: usize = 64;

/// The words of some texts, each with the one text that has it, or that several have it.
#[derive(Debug, Default)]
pub(crate) struct Words(HashMap<Vec<u8>, Option<usize>>);

impl Words {
    /// Adds the words of the text with this number: runs of letters, digits and `_`.
    pub(crate) fn add(&mut self, number: usize, text: &[u8]) {
        for word in words(text) {
            match self.0.get_mut(word) {
                Some(Some(known)) if *known == number => {}
                Some(known) => *known = None,
                None => drop(self.0.insert(word.to_owned(), Some(number))),
            }
        }
    }

    /// Whether all words of `name` are in texts, and each in one that `is_other`.
    pub(crate) fn mention(&self, name: &[u8], is_other: impl Fn(usize) -> bool) -> bool {
        let is_mentioned = |word: &[u8]| self.0.get(word).is_some_and(|text| text.is_none_or(&is_other));
        words(name).all(is_mentioned)
    }

    /// The filter that has all of these words.
    pub(crate) fn filter(&self) -> WordFilter {
        let bytes = (self.0.len() * BITS).div_ceil(8).next_power_of_two().max(MIN_BYTES);
        let mut filter = WordFilter(vec![0; bytes]);
        for word in self.0.keys() {
            for bit in filter.bits_of(word) {
                filter.0[bit / 8] |= 1 << (bit % 8);
            }
        }
        filter
    }

    /// Whether a filter has all of these words.
    pub(crate) fn are_in(&self, filter: &WordFilter) -> bool {
        self.0.keys().all(|word| filter.has(word))
    }
}

/// A set of words that may seem to have more. Empty: it has no word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WordFilter(pub(crate) Vec<u8>);

impl WordFilter {
    /// Whether all words of `name` may be in the set. A name without a word is: nothing is known of it.
    pub(crate) fn mention(&self, name: &[u8]) -> bool {
        words(name).all(|word| self.has(word))
    }

    fn has(&self, word: &[u8]) -> bool {
        !self.0.is_empty() && self.bits_of(word).all(|bit| self.0[bit / 8] & (1 << (bit % 8)) != 0)
    }

    /// The bits of a word. The algorithm is a part of the manifest's format.
    fn bits_of(&self, word: &[u8]) -> impl Iterator<Item = usize> + use<> {
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let hash = word.iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
        let mixed = (hash ^ (hash >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let step = (mixed ^ (mixed >> 29)) | 1;
        let bits = self.0.len() as u64 * 8;
        (0..HASHES).map(move |at| (hash.wrapping_add(step.wrapping_mul(at)) % bits.max(1)) as usize)
    }
}

/// The words of a text: runs of letters, digits and `_`.
pub(crate) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.split(move |byte| !is_letter(byte)).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_all_words_and_few_others() {
        let mut all = Words::default();
        let text = (0..5000).map(|number| format!("name_{number} ")).collect::<String>();
        all.add(0, text.as_bytes());
        let filter = all.filter();
        assert!(all.are_in(&filter));
        assert!((0..5000).all(|number| filter.mention(format!("name_{number}").as_bytes())));
        let others = (0..5000).filter(|number| filter.mention(format!("other_{number}").as_bytes())).count();
        assert!(others < 250, "{others}");
        assert!(!WordFilter::default().mention(b"a") && WordFilter::default().mention(b"-"));
    }

    #[test]
    fn a_name_is_mentioned_by_another_text() {
        let mut words = Words::default();
        words.add(1, b"import helper; x-1.y");
        words.add(2, b"def helper_2(): import x");
        assert!(words.mention(b"helper", |text| text != 2) && !words.mention(b"helper", |text| text != 1));
        // Two texts have it.
        assert!(words.mention(b"x", |_| false));
        assert!(!words.mention(b"x-absent", |_| true));
    }
}

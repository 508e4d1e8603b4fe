//! Fat binaries: several objects in one file, each with a key.
//!
//! The file begins with their number n, n keys and n offsets, all of 64 bits, little-endian; the objects follow.
//! Offsets count from the beginning of the file, or from the end of that table if the first offset is 0.

use std::collections::HashMap;

use opkeep_cann_meta::KernelMeta;

/// The size of a number in the table, in bytes.
const WORD: usize = 8;

/// The objects of a fat binary.
pub(crate) struct Fat<'a> {
    /// In the order of the file.
    pub(crate) objects: Vec<&'a [u8]>,
    /// The index of the object of each key; the last of two with one key.
    pub(crate) by_key: HashMap<u64, usize>,
}

/// Whether `object` is a fat binary: items of `kernelList` have keys, and the file is no ELF file.
pub(crate) fn is_fat(meta: &KernelMeta, object: &[u8]) -> bool {
    let keyed = || meta.listed().is_some_and(|list| list.iter().any(|entry| entry.config_key.is_some()));
    !object.starts_with(b"\x7fELF") && keyed()
}

impl<'a> Fat<'a> {
    /// Splits a fat binary into objects.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let (count, rest) = bytes.split_first_chunk().ok_or("its number of objects is cut off")?;
        let count = u64::from_le_bytes(*count);
        let words = usize::try_from(count).ok().and_then(|count| count.checked_mul(2));
        let table = words.and_then(|words| rest.get(..words.checked_mul(WORD)?));
        let table = table.ok_or_else(|| format!("keys and offsets, {count} of each, do not fit"))?;
        let (words, _) = table.as_chunks::<WORD>();
        let (keys, offsets) = words.split_at(words.len() / 2);
        let head = WORD + table.len();
        let counted_from = if offsets.contains(&[0; WORD]) { head } else { 0 };
        let mut starts = Vec::with_capacity(offsets.len());
        for offset in offsets {
            let offset = u64::from_le_bytes(*offset);
            let start = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(counted_from));
            let inside = start.filter(|start| (head..bytes.len()).contains(start));
            starts.push(inside.ok_or_else(|| format!("an object at {offset:#x} is outside"))?);
        }
        let mut places = starts.clone();
        opkeep_order::sort(&mut places);
        // Two keys may share an object.
        places.dedup();
        if places.is_empty() {
            return Err("it has no objects".to_owned());
        }
        let ends = places.iter().skip(1).copied().chain([bytes.len()]);
        let objects = places.iter().zip(ends).map(|(start, end)| bytes.get(*start..end).unwrap_or_default());
        let place = |start| places.binary_search(start).unwrap_or_default();
        Ok(Self {
            objects: objects.collect(),
            by_key: keys.iter().map(|key| u64::from_le_bytes(*key)).zip(starts.iter().map(place)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(words: &[u64], objects: &[u8]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).chain(objects.iter().copied()).collect()
    }

    #[test]
    fn both_ways_to_count_are_read() {
        for offsets in [[40, 43], [0, 3]] {
            let bytes = made(&[2, 7, 9, offsets[0], offsets[1]], b"onetwo");
            let fat = Fat::read(&bytes).unwrap();
            assert_eq!(fat.objects, [b"one", b"two"]);
            assert_eq!((fat.by_key[&7], fat.by_key[&9], fat.by_key.len()), (0, 1, 2));
        }
    }

    #[test]
    fn objects_may_be_shared_and_in_any_order() {
        let bytes = made(&[3, 1, 2, 3, 59, 56, 59], b"onetwo");
        let fat = Fat::read(&bytes).unwrap();
        assert_eq!(fat.objects, [b"one", b"two"]);
        assert_eq!([fat.by_key[&1], fat.by_key[&2], fat.by_key[&3]], [1, 0, 1]);
    }

    #[test]
    fn tables_with_wrong_offsets_are_refused() {
        let refused = |words: &[u64]| Fat::read(&made(words, b"onetwo")).err().unwrap();
        assert!(Fat::read(b"four").err().unwrap().contains("cut off"));
        assert!(refused(&[0]).contains("no objects"));
        for count in [3, 1 << 60, 1 << 61, 1 << 63, u64::MAX] {
            assert!(refused(&[count, 1, 2, 40, 43]).contains("do not fit"), "{count}");
        }
        for offset in [1, 39, 46, u64::MAX] {
            assert!(refused(&[2, 1, 2, 40, offset]).contains("outside"), "{offset}");
        }
        assert!(refused(&[2, 1, 2, 0, u64::MAX]).contains("outside"));
    }
}

#![doc = include_str!("../README.md")]

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Sorts the values. Equal ones keep their order.
pub fn sort<T: Ord>(values: &mut [T]) {
    by(values, T::cmp);
}

/// Sorts the values by a key, which is computed for each comparison. Values of equal keys keep their order.
pub fn by_key<T, K: Ord>(values: &mut [T], mut key: impl FnMut(&T) -> K) {
    by(values, |one, other| key(one).cmp(&key(other)));
}

/// Sorts the values by a comparison, which is a total order. Equal ones keep their order.
pub fn by<T>(values: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let mut from = sorted(values.len(), &mut |one, other| compare(&values[one], &values[other]));
    arrange(&mut from, &mut |one, other| values.swap(one, other));
}

/// Returns the map of the pairs. Of pairs with equal keys, the last one counts.
pub fn map<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    for (key, value) in pairs {
        map.insert(key, value);
    }
    map
}

/// Returns the set of the values.
pub fn set<T: Ord>(values: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    for value in values {
        set.insert(value);
    }
    set
}

/// Returns a collection, such as an object of `serde_json`, into which the values are inserted one after the other.
pub fn collected<C: Default + Extend<T>, T>(values: impl IntoIterator<Item = T>) -> C {
    let mut collection = C::default();
    collection.extend(values);
    collection
}

/// Returns the places of `count` values in the order of `compare`.
#[inline(never)]
fn sorted(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|one, other| compare(*one, *other));
    places
}

/// Moves the value at `from[place]` to `place`, for each place, by swaps: each cycle of places by itself.
#[inline(never)]
fn arrange(from: &mut [usize], swap: &mut dyn FnMut(usize, usize)) {
    for begin in 0..from.len() {
        let mut place = begin;
        // The value of the beginning travels through its cycle, and arrives where the cycle ends.
        while from[place] != begin {
            let next = from[place];
            swap(place, next);
            from[place] = place;
            place = next;
        }
        from[place] = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, and are the same in each run.
    fn numbers(count: usize, of: u64) -> Vec<u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % of
        };
        (0..count).map(|_| next()).collect()
    }

    /// The order is that of the standard library, also that of equal values.
    #[test]
    fn values_are_sorted_and_equal_ones_keep_their_order() {
        for (count, of) in
            [(0, 1), (1, 1), (2, 2), (3, 2), (20, 5), (21, 1000), (100, 3), (1000, 10), (1000, u64::MAX)]
        {
            let values: Vec<(u64, usize)> = numbers(count, of).into_iter().zip(0..).collect();
            let (mut own, mut std) = (values.clone(), values.clone());
            by_key(&mut own, |(number, _)| *number);
            std.sort_by_key(|(number, _)| *number);
            assert_eq!(own, std, "{count} of {of}");
            by(&mut own, |one, other| other.0.cmp(&one.0));
            std.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
            assert_eq!(own, std, "{count} of {of}");
            sort(&mut own);
            std.sort();
            assert_eq!(own, std, "{count} of {of}");
        }
    }

    /// Values that own memory are moved, and neither lost nor dropped twice.
    #[test]
    fn values_that_own_memory_are_kept() {
        let mut texts: Vec<String> = numbers(300, 50).iter().map(u64::to_string).collect();
        let mut std = texts.clone();
        sort(&mut texts);
        std.sort();
        assert_eq!(texts, std);
    }

    #[test]
    fn the_last_pair_of_a_key_counts() {
        let pairs = || numbers(200, 40).into_iter().zip(0_u32..);
        assert_eq!(map(pairs()), pairs().collect());
        assert_eq!(set(numbers(200, 40)), numbers(200, 40).into_iter().collect());
        assert_eq!(collected::<BTreeMap<_, _>, _>(pairs()), pairs().collect());
    }
}

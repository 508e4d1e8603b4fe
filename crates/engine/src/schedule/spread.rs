//! The order in which one of many hosts begins kernels, so that hosts which begin at the same time do not all try the same ones.

use std::hash::{BuildHasher, RandomState};

/// Shuffles `order` in windows: the first one has `first` items, and each further one twice as many as the last. So the longest
/// kernels, which come first, still begin early, and of a thousand hosts each that is late for the first kernels soon tries others
/// than its neighbours.
pub(super) fn shuffle_windows<T>(order: &mut [T], first: usize) {
    let random = RandomState::new();
    let (mut rest, mut window, mut draws) = (order, first.max(1), 0_u64);
    while !rest.is_empty() {
        let (part, after) = rest.split_at_mut(window.min(rest.len()));
        for at in (1..part.len()).rev() {
            draws += 1;
            part.swap(at, usize::try_from(random.hash_one(draws) % (at as u64 + 1)).unwrap_or_default());
        }
        (rest, window) = (after, window.saturating_mul(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_stay_in_their_windows_and_hosts_differ() {
        let shuffled = || {
            let mut order: Vec<usize> = (0..148).collect();
            shuffle_windows(&mut order, 8);
            order
        };
        let orders = [shuffled(), shuffled(), shuffled()];
        for order in &orders {
            for window in [0..8, 8..24, 24..56, 56..120, 120..148] {
                let mut items = order[window.clone()].to_vec();
                items.sort_unstable();
                assert_eq!(items, window.collect::<Vec<_>>());
            }
        }
        assert!(orders[0] != orders[1] || orders[1] != orders[2]);
    }

    #[test]
    fn any_window_fits_any_order() {
        for (items, first) in [(0, 0), (1, 0), (2, 5), (5, 1), (3, usize::MAX)] {
            let mut order: Vec<usize> = (0..items).collect();
            shuffle_windows(&mut order, first);
            order.sort_unstable();
            assert_eq!(order, (0..items).collect::<Vec<_>>());
        }
    }
}

//! Random numbers that are different in each process, also in a forked child, and on each host. Not for secrets.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use opkeep_digest::Hasher;
use opkeep_fs::{ProcessId, thread_number};

/// Returns random bytes. The standard library's hash keys come from the operating system; a forked child has a copy of them, but
/// another process number.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let mut hasher = Hasher::new("opkeep random");
    for salt in 0..4_u64 {
        hasher.u64(RandomState::new().hash_one(salt));
    }
    hasher.u64(ProcessId::current().number().into());
    hasher.u64(thread_number());
    hasher.u64(CALLS.fetch_add(1, Ordering::Relaxed));
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    hasher.u64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let digest = hasher.finish();
    std::array::from_fn(|at| digest.as_bytes()[at % 32])
}

/// Returns a random number.
pub(crate) fn random_number() -> u64 {
    u64::from_le_bytes(random_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_equal() {
        let numbers: std::collections::HashSet<u64> = (0..1000).map(|_| random_number()).collect();
        assert_eq!(numbers.len(), 1000);
    }
}

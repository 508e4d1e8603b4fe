//! The memory that a server is one of a Redis Cluster.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use opkeep_cache::fs::without_fork;

use super::error::ServerError;

/// The time for which no call is made after such an answer. A long-lived process uses a server again that is of a cluster no more, or
/// that another one has replaced.
const PAUSE: Duration = Duration::from_secs(30);

/// The last answer by which the server is one of a Redis Cluster. Calls for the keys that it has would succeed, and all others fail, so
/// none is made for a while.
#[derive(Default)]
pub(super) struct ClusterRefusal(Mutex<Option<(ServerError, Instant)>>);

impl ClusterRefusal {
    /// Returns the answer, if it counts at `now`.
    pub(super) fn get(&self, now: Instant) -> Option<ServerError> {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < PAUSE;
        self.change(|last| last.as_ref().filter(|(_, at)| is_recent(*at)).map(|(error, _)| error.clone()))
    }

    pub(super) fn note(&self, error: &ServerError, now: Instant) {
        let last = Some((error.clone(), now));
        let before = self.change(|current| std::mem::replace(current, last));
        drop(before);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Option<(ServerError, Instant)>) -> T) -> T {
        without_fork(|| change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_a_cluster_counts_for_a_while() {
        let (refusal, began) = (ClusterRefusal::default(), Instant::now());
        let down = ServerError::new(b"CLUSTERDOWN Hash slot not served", None);
        assert!(refusal.get(began).is_none());
        refusal.note(&down, began);
        assert!(
            refusal.get(began + PAUSE - Duration::from_millis(1)).is_some_and(|last| last.is_of_cluster())
        );
        assert!(refusal.get(began + PAUSE).is_none());
        refusal.note(&down, began + PAUSE);
        assert!(refusal.get(began + PAUSE).is_some());
    }
}

//! The kernels that this engine put into the view, so that a repeated request does not write them again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use opkeep_descriptor::Key;

use crate::Request;

/// The maximum number of remembered operators, and of remembered framework names.
const MAX_KNOWN: usize = 16 * 1024;

/// The kernel that was last written for each operator, and the kernel that was last written under each framework name:
/// another kernel may have been built since for the same operator, or under the same name.
#[derive(Default)]
pub(crate) struct PlacementCache(Mutex<Known>);

#[derive(Default)]
struct Known {
    operators: PlacementRecords,
    names: PlacementRecords,
}

type PlacementRecords = HashMap<String, PlacementRecord>;

/// The record of a name in the view.
#[derive(Default)]
struct PlacementRecord {
    /// The key of the last kernel; `None` during a write, and if it is unknown which of several concurrent writes was
    /// the last.
    key: Option<Key>,
    /// The number of writes in progress.
    busy: usize,
    /// Whether the writes in progress are to be forgotten, since they overlapped or the cache was cleared.
    is_stale: bool,
}

impl PlacementCache {
    /// Whether the kernel of `key` was the last one written for `request`.
    pub(crate) fn has(&self, request: &Request, key: Key) -> bool {
        let known = self.locked();
        let is_last = |records: &PlacementRecords, name: &str| {
            records.get(name).is_some_and(|record| record.key == Some(key))
        };
        let [operator, name] = names_of(request);
        is_last(&known.operators, operator) && (name.is_empty() || is_last(&known.names, name))
    }

    /// Calls `place`, which writes the kernel of `key` for `request`, and records the result.
    pub(crate) fn place<E>(
        &self,
        request: &Request,
        key: Option<Key>,
        place: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        self.locked().begin(request);
        let placed = place();
        let key = key.filter(|_| placed.is_ok());
        self.locked().each(request, |record| record.end(key));
        placed
    }

    /// Forgets all placements.
    pub(crate) fn clear(&self) {
        self.locked().clear();
    }

    /// The records. A panic elsewhere leaves them consistent.
    fn locked(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn begin(&mut self, request: &Request) {
        if self.operators.len().max(self.names.len()) >= MAX_KNOWN {
            self.clear();
        }
        self.each(request, PlacementRecord::begin);
    }

    fn each(&mut self, request: &Request, change: impl Fn(&mut PlacementRecord)) {
        let [operator, name] = names_of(request);
        change(self.operators.entry(operator.to_owned()).or_default());
        if !name.is_empty() {
            change(self.names.entry(name.to_owned()).or_default());
        }
    }

    fn clear(&mut self) {
        for records in [&mut self.operators, &mut self.names] {
            records.retain(|_, record| record.busy > 0);
            // A write in progress is forgotten, too.
            records.values_mut().for_each(|record| record.is_stale = true);
        }
    }
}

impl PlacementRecord {
    fn begin(&mut self) {
        self.key = None;
        self.is_stale |= self.busy > 0;
        self.busy += 1;
    }

    fn end(&mut self, key: Option<Key>) {
        self.busy -= 1;
        if self.busy == 0 {
            self.key = key.filter(|_| !self.is_stale);
            self.is_stale = false;
        }
    }
}

/// Returns the names by which a kernel is found: the operator, and the framework's name for the kernel, which may be
/// empty.
fn names_of(request: &Request) -> [&str; 2] {
    [request.name(), &request.descriptor.envelope.fusion_op_name]
}

#[cfg(test)]
mod tests {
    use opkeep_digest::Digest;
    use opkeep_testkit::descriptor;

    use super::*;

    fn key(of: &str) -> Key {
        Key::from(Digest::of(of.as_bytes()))
    }

    fn request(name: &str) -> Request {
        let mut request = Request::new(descriptor(name, "Square", &[&[3]]));
        request.descriptor.envelope.fusion_op_name = name.to_owned();
        request
    }

    #[test]
    fn memory_is_bounded() {
        let view = PlacementCache::default();
        let mut request = request("");
        for at in 0..=2 * MAX_KNOWN {
            request.descriptor.envelope.full_name = at.to_string();
            request.descriptor.envelope.fusion_op_name = at.to_string();
            view.place(&request, Some(key("one")), || Ok::<_, ()>(())).unwrap();
            assert!(view.has(&request, key("one")));
            let known = view.locked();
            assert!(known.operators.len() <= MAX_KNOWN && known.names.len() <= MAX_KNOWN);
        }
    }

    #[test]
    fn a_failed_write_is_no_placement() {
        let (view, request) = (PlacementCache::default(), request("net/a"));
        view.place(&request, Some(key("one")), || Ok::<_, ()>(())).unwrap();
        view.place(&request, Some(key("one")), || Err(())).unwrap_err();
        assert!(!view.has(&request, key("one")));
    }

    /// It is unknown which of two concurrent writes was the last.
    #[test]
    fn after_concurrent_writes_the_kernel_is_written_again() {
        let (view, request) = (PlacementCache::default(), request("net/a"));
        let within = |inner: &dyn Fn()| {
            let placed = view.place(&request, Some(key("one")), || {
                assert!(!view.has(&request, key("one")));
                inner();
                Ok::<_, ()>(())
            });
            placed.unwrap();
            view.has(&request, key("one")) || view.has(&request, key("two"))
        };
        let another = || view.place(&request, Some(key("two")), || Ok::<_, ()>(())).unwrap();
        assert!(!within(&another));
        assert!(within(&|| ()));
        assert!(!within(&|| view.clear()));
        assert!(within(&|| ()));
    }
}

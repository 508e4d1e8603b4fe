//! The objects behind the handles.
//!
//! A handle is a number that is never used again. The table is locked for the look-up only, and not while the process forks, so
//! that a forked child finds it unlocked and complete.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use opkeep_fs::without_fork;

use crate::code::Code;
use crate::error::Error;
use crate::warnings::{Warning, Warnings};

/// An object with a handle.
pub(crate) trait Object: Any + Send + Sync {
    /// The kind of the object, which is the name of arguments that are its handle.
    const KIND: &'static str;
}

struct Table {
    last_id: u64,
    objects: BTreeMap<u64, Slot>,
    /// The warnings of each cache. They are here, and not in the caches, because this lock is the one that forks respect.
    warnings: BTreeMap<u64, Warnings>,
}

struct Slot {
    object: Arc<dyn Any + Send + Sync>,
    kind: &'static str,
}

static TABLE: Mutex<Table> =
    Mutex::new(Table { last_id: 0, objects: BTreeMap::new(), warnings: BTreeMap::new() });

/// Calls `change` with the table, while this process does not fork.
fn with_table<T>(change: impl FnOnce(&mut Table) -> T) -> T {
    without_fork(|| change(&mut TABLE.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl Table {
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// The object behind a handle.
    fn get<T: Object>(&self, id: u64) -> Result<Arc<T>, Error> {
        let slot = self.objects.get(&id);
        let object = slot.and_then(|slot| Arc::clone(&slot.object).downcast().ok());
        object.ok_or_else(|| {
            let (name, slot) = (T::KIND, slot.map(|slot| slot.kind));
            Error::new(
                Code::Handle,
                match (id, slot) {
                    (0, _) => format!("`{name}` is unset: its `id` is 0"),
                    (_, Some(kind)) => {
                        format!("`{name}` is a handle of another kind, `{kind}`: its `id` is {id}")
                    }
                    _ if id <= self.last_id => format!("`{name}` was released before: its `id` is {id}"),
                    _ => format!("`{name}` is no handle: no function returned the `id` {id}"),
                },
            )
        })
    }
}

impl Slot {
    fn new<T: Object>(object: T) -> Self {
        Self { object: Arc::new(object), kind: T::KIND }
    }
}

/// Creates a handle for `object`.
pub(crate) fn insert<T: Object>(object: T) -> u64 {
    let slot = Slot::new(object);
    with_table(|table| {
        let id = table.next_id();
        table.objects.insert(id, slot);
        id
    })
}

/// Creates a handle for an object that `open` creates, and that emits warnings for that handle.
pub(crate) fn insert_with_warnings<T: Object>(
    open: impl FnOnce(u64) -> Result<T, Error>,
) -> Result<u64, Error> {
    let id = with_table(|table| {
        let id = table.next_id();
        table.warnings.insert(id, Warnings::default());
        id
    });
    match open(id).map(Slot::new) {
        Ok(slot) => {
            with_table(|table| table.objects.insert(id, slot));
            Ok(id)
        }
        Err(error) => {
            with_table(|table| table.warnings.remove(&id));
            Err(error)
        }
    }
}

/// The object behind a handle. It lives on while it is used, even if another thread releases the handle meanwhile.
pub(crate) fn get<T: Object>(id: u64) -> Result<Arc<T>, Error> {
    with_table(|table| table.get(id))
}

/// All objects of a kind that have handles.
pub(crate) fn all<T: Object>() -> Vec<Arc<T>> {
    let objects: Vec<_> =
        with_table(|table| table.objects.values().map(|slot| Arc::clone(&slot.object)).collect());
    objects.into_iter().filter_map(|object| object.downcast().ok()).collect()
}

/// Releases a handle. The unset handle, 0, has nothing to release.
pub(crate) fn release<T: Object>(id: u64) -> Result<(), Error> {
    if id == 0 {
        return Ok(());
    }
    let object = with_table(|table| -> Result<Arc<T>, Error> {
        let object = table.get::<T>(id)?;
        table.warnings.remove(&id);
        table.objects.remove(&id);
        Ok(object)
    })?;
    // Only now, since the end of an object may take time, or emit warnings.
    drop(object);
    Ok(())
}

/// Keeps a warning of the cache with this handle.
pub(crate) fn warn(id: u64, warning: Warning) {
    with_table(|table| {
        if let Some(warnings) = table.warnings.get_mut(&id) {
            warnings.push(warning);
        }
    });
}

/// Takes the oldest warning of the cache with this handle, and the number of those that were dropped before it.
pub(crate) fn next_warning(id: u64) -> Option<(Warning, u64)> {
    with_table(|table| table.warnings.get_mut(&id)?.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;
    impl Object for One {
        const KIND: &'static str = "one";
    }
    struct Two;
    impl Object for Two {
        const KIND: &'static str = "two";
    }

    #[test]
    fn a_released_handle_is_an_error_for_ever() {
        let one = insert(One);
        assert!(get::<One>(one).is_ok());
        assert!(get::<Two>(one).is_err() && release::<Two>(one).is_err());
        let in_use = get::<One>(one).unwrap();
        release::<One>(one).unwrap();
        assert_eq!(Arc::strong_count(&in_use), 1);
        assert_ne!(insert(One), one);
        for id in [one, 0, u64::MAX] {
            assert_eq!(get::<One>(id).err().unwrap().code, Code::Handle);
        }
        assert!(release::<One>(one).is_err());
        assert!(release::<One>(0).is_ok());
    }
}

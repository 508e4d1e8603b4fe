//! Compiled kernels of the store, by name: the view looks them up to recognise files that no manifest lists.

use opkeep_digest::Digest;
use opkeep_kernel_entry::KernelBundle;
use opkeep_kernel_entry::member::IMPORTED;
use opkeep_kernel_meta::{StoredKernel, StoredKernels};
use opkeep_store::{Entry, Lookup, Store, TargetStore};

/// The compiled kernels of all targets of a store. Imported kernels are left out, since they belong to their
/// frameworks.
pub(crate) struct OwnKernels<'a> {
    pub(crate) store: Option<&'a Store>,
}

impl StoredKernels for OwnKernels<'_> {
    fn named(&self, name: &str) -> Vec<StoredKernel> {
        let Some(store) = self.store.map(Store::reader) else { return Vec::new() };
        let targets = store.targets().unwrap_or_default();
        let stores = targets.iter().filter_map(|target| store.target(target).ok());
        stores.flat_map(|store| entries(&store, name)).filter_map(|entry| kernel(&entry, name)).collect()
    }
}

/// Returns the entries whose keys begin with a number in `name`: a compiled kernel's name ends with the first 64 bits
/// of its key.
fn entries(store: &TargetStore, name: &str) -> Vec<Entry> {
    let numbers = name.split('_').filter_map(|word| word.parse::<u64>().ok());
    let keys = numbers.flat_map(|number| {
        let [first, ..] = number.to_be_bytes();
        store.keys_from(first).into_iter().filter(move |key| key.prefix_u64() == number)
    });
    let entry = |key| match store.peek(&key) {
        Lookup::Hit(entry) => Some(*entry),
        Lookup::Miss(_) => None,
    };
    keys.filter_map(entry).collect()
}

fn kernel(entry: &Entry, name: &str) -> Option<StoredKernel> {
    if entry.member(IMPORTED).is_some() {
        return None;
    }
    let files = KernelBundle::of_entry(entry).ok()?;
    let is_named = files.file_stem().as_deref() == Some(name);
    is_named.then(|| StoredKernel { object: Digest::of(files.object()), json: files.json().to_vec() })
}

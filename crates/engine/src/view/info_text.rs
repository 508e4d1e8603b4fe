//! Digests of the `.info` files of a view, kept with the descriptors that they are written from.
//!
//! A valid file is not rewritten. Recognising a valid file needs its expected content, and rendering that content for
//! each kernel takes longer than the look-up. So the digest and the length of the content are kept while the descriptor
//! is unchanged. They are kept from the second request of a name on, since most processes build once and would never
//! use copies of their descriptors.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use opkeep_descriptor::{Descriptor, write_info_named};
use opkeep_digest::Digest;

/// The maximum number of remembered descriptors.
const MAX_KNOWN: usize = 1024;

/// Digests of `.info` files by name; `None` after the first request of a name.
#[derive(Default)]
pub(crate) struct InfoTextCache(Mutex<HashMap<String, Option<(Descriptor, Info)>>>);

/// The digest and the length of a file's expected content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) digest: Digest,
    pub(crate) bytes: u64,
}

impl InfoTextCache {
    /// Returns the digest and the length of the `.info` of `descriptor` under the name `stem`.
    pub(crate) fn of(&self, stem: &str, descriptor: &Descriptor) -> Info {
        if let Some(Some((known, info))) = self.locked().get(stem)
            && known == descriptor
            && is_spelled_as(known, descriptor)
        {
            return *info;
        }
        let text = write_info_named(descriptor, stem);
        let info = Info { digest: Digest::of(text.as_bytes()), bytes: text.len() as u64 };
        let mut known = self.locked();
        if let Some(known) = known.get_mut(stem) {
            *known = Some((descriptor.clone(), info));
            return info;
        }
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(stem.to_owned(), None);
        info
    }

    /// The records. A panic elsewhere leaves them consistent.
    fn locked(&self) -> MutexGuard<'_, HashMap<String, Option<(Descriptor, Info)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two equal descriptors have the same text: one framework writes `1e-05`, another one `0.00001`.
fn is_spelled_as(known: &Descriptor, descriptor: &Descriptor) -> bool {
    let ops = known.job.ops.iter().zip(&descriptor.job.ops);
    let attrs = ops.filter_map(|(known, op)| known.attrs.as_ref().zip(op.attrs.as_ref()));
    attrs
        .flat_map(|(known, attrs)| known.iter().zip(attrs))
        .all(|(known, attr)| known.value.is_spelled_as(&attr.value))
}

#[cfg(test)]
mod tests {
    use opkeep_descriptor::read_info;
    use opkeep_testkit::descriptor;

    use super::*;

    #[test]
    fn a_remembered_digest_is_that_of_the_text() {
        let infos = InfoTextCache::default();
        let written = |stem: &str, descriptor: &Descriptor| {
            let text = write_info_named(descriptor, stem);
            Info { digest: Digest::of(text.as_bytes()), bytes: text.len() as u64 }
        };
        let one = descriptor("net/a", "Square", &[&[3]]);
        let mut other = one.clone();
        other.envelope.full_name = "net/b".to_owned();
        // The same name for another descriptor, and the same descriptor under another name.
        for (stem, descriptor) in [("s", &one), ("s", &one), ("s", &other), ("t", &other), ("s", &one)] {
            assert_eq!(infos.of(stem, descriptor), written(stem, descriptor));
        }
        // A name that was requested once has no descriptor yet.
        let is_kept = |stem: &str| infos.locked()[stem].is_some();
        assert!(is_kept("s") && !is_kept("t"));
        assert_ne!(infos.of("s", &one), infos.of("s", &other));
        // Two equal descriptors with different spellings of a number.
        let spelled = |number: &str| {
            let info = include_str!("../../../../fixtures/mindspore/square_12484080525657478220_2.info");
            let attrs = format!(
                r#""attrs": [{{"name": "e", "dtype": "float32", "value": {number}, "valid": true}}], "build_type""#
            );
            read_info(info.replace("\"build_type\"", &attrs).as_bytes()).unwrap()
        };
        let (short, long) = (spelled("1e-05"), spelled("0.00001"));
        assert_eq!(short, long);
        for descriptor in [&short, &short, &long, &long, &short] {
            assert_eq!(infos.of("e", descriptor), written("e", descriptor));
        }
        for at in 0..2 * MAX_KNOWN {
            infos.of(&at.to_string(), &one);
            infos.of(&at.to_string(), &one);
            assert!(infos.locked().len() <= MAX_KNOWN);
        }
    }
}

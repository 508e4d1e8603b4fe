//! The body of the fuzz target.

use serde_json::Value;

use crate::info::limits::reserved_key;
use crate::info::scan::scan;
use crate::{Descriptor, Diff, Envelope, Generation, InfoError, KernelName, read_info, write_info};

/// Reads `bytes` as a descriptor and calls every function on the result.
///
/// # Panics
/// If reading and writing do not round-trip, or another invariant does not hold.
pub fn fuzz(bytes: &[u8]) {
    if reserved_key(bytes).is_none() {
        let scanned = scan(bytes).map(|scanned| Value::from(scanned.document.root()));
        assert_eq!(scanned, serde_json::from_slice(bytes).ok(), "the JSON library reads another value");
    }
    let Ok(descriptor) = read_info(bytes) else { return };
    match read_info(write_info(&descriptor).as_bytes()) {
        // White space may make the written form exceed the size limit.
        Err(InfoError::TooLarge { .. }) => {}
        again => assert_eq!(again.as_ref(), Ok(&descriptor), "the written form reads back differently"),
    }
    let bare = Descriptor { envelope: Envelope::default(), ..descriptor.clone() };
    let again = read_info(write_info(&bare).as_bytes());
    if !matches!(again, Err(InfoError::TooLarge { .. })) {
        let again = again.map(|again| (again.job.digest(), again.spec));
        assert_eq!(again, Ok((bare.job.digest(), bare.spec)), "without its envelope it is a different job");
    }

    assert_eq!(descriptor.job.digest(), descriptor.job.clone().digest());
    assert!(Diff::of_jobs(&descriptor.job, &descriptor.job).is_empty(), "a job differs from itself");
    for generation in Generation::ALL {
        if let Ok(name) = KernelName::mindspore(&descriptor, generation, descriptor.device_id()) {
            assert!(descriptor.named_by(name.as_str()).is_some(), "`{name}` is not known");
        }
    }
    // A descriptor may have no name, but the call must return.
    let _ = descriptor.kernel_meta_stem();
}

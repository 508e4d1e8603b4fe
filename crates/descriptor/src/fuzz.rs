//! What the fuzzer calls.

use serde_json::Value;

use crate::info::limits::reserved_key;
use crate::info::scan::scan;
use crate::{Descriptor, Diff, Envelope, Generation, InfoError, KernelName, read_info, write_info};

/// Reads `bytes` as a descriptor, and does with it all that can be done.
///
/// # Panics
/// What was read does not come back, or there is another mistake.
pub fn fuzz(bytes: &[u8]) {
    if reserved_key(bytes).is_none() {
        let scanned = scan(bytes).map(|scanned| Value::from(scanned.document));
        assert_eq!(scanned, serde_json::from_slice(bytes).ok(), "the JSON library reads something else");
    }
    let Ok(descriptor) = read_info(bytes) else { return };
    match read_info(write_info(&descriptor).as_bytes()) {
        // Written with spaces, it may be larger than before.
        Err(InfoError::TooLarge { .. }) => {}
        again => assert_eq!(again.as_ref(), Ok(&descriptor), "what was read does not come back"),
    }
    let bare = Descriptor { envelope: Envelope::default(), ..descriptor.clone() };
    let again = read_info(write_info(&bare).as_bytes());
    if !matches!(again, Err(InfoError::TooLarge { .. })) {
        let again = again.map(|again| (again.job.digest(), again.spec));
        assert_eq!(again, Ok((bare.job.digest(), bare.spec)), "without its envelope it is another");
    }

    assert_eq!(descriptor.job.digest(), descriptor.job.clone().digest());
    assert!(Diff::of_jobs(&descriptor.job, &descriptor.job).is_empty(), "a job differs from itself");
    for generation in Generation::ALL {
        if let Ok(name) = KernelName::mindspore(&descriptor, generation, descriptor.device_id()) {
            assert!(descriptor.named_by(name.as_str()).is_some(), "`{name}` is not known");
        }
    }
    // Whether it has a name is its own affair: it returns, whatever it says.
    let _ = descriptor.kernel_meta_stem();
}

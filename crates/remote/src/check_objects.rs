//! Where checks and probes store objects: in a namespace of their own, so that what a killed one leaves is found.

use std::hash::{BuildHasher, RandomState};

use opkeep_cache::ObjectName;

/// The namespace of all checks.
pub(crate) const NAMESPACE: &str = "check";
/// What the names of all objects of checks and probes begin with.
pub const CHECK_PREFIX: &str = "v1/check/";
/// What a target of a check begins with, before 16 random digits.
const TARGET: &str = "check-";
const DIGITS: usize = 16;

/// Returns a target that no other check has.
pub(crate) fn new_target() -> String {
    format!("{TARGET}{:016x}", random())
}

/// Returns the name of an object by which a client probes its engine, and which no other one has.
pub(crate) fn probe_name() -> Result<ObjectName, opkeep_cache::ObjectNameError> {
    ObjectName::new(format!("{CHECK_PREFIX}{}/probe", new_target()))
}

/// Whether an object is one of a check or a probe. Each deletes its own at its end, unless it is killed: one that is old may be
/// deleted.
pub fn is_check_object(name: &ObjectName) -> bool {
    let target = name.as_str().strip_prefix(CHECK_PREFIX).and_then(|rest| rest.split('/').next());
    let digits = target.and_then(|target| target.strip_prefix(TARGET));
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A random number, of the system's.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use opkeep_cache::{Namespace, ObjectNames, StoredName};

    use super::*;

    #[test]
    fn objects_of_checks_and_probes_are_recognized() {
        let namespace: Namespace = NAMESPACE.parse().unwrap();
        assert_eq!(StoredName::prefix(&namespace), CHECK_PREFIX);
        let key = opkeep_cache::Digest::of(b"x");
        let of =
            |namespace: &Namespace, target: &str| ObjectNames::new(namespace, target).unwrap().entry(&key);
        assert!(is_check_object(&of(&namespace, &new_target())));
        assert!(is_check_object(&probe_name().unwrap()));
        for other in
            ["check-", "check-0123", "check-0123456789abcdefg", "check-0123456789abcdex", "cpu-x86_64"]
        {
            assert!(!is_check_object(&of(&namespace, other)), "{other}");
        }
        assert!(!is_check_object(&of(&Namespace::default(), &new_target())));
    }
}

//! Where checks and probes store objects: in a namespace of their own, or in one that the caller names, each below a target of its own.
//! So what a killed one leaves is found.

use std::hash::{BuildHasher, RandomState};

use opkeep_cache::ObjectName;

/// The namespace of all probes, and of the checks for which none is named.
pub(crate) const NAMESPACE: &str = "check";
/// What the names of all objects of probes begin with, and those of the checks for which no namespace is named.
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

/// Whether an object is one of a check or a probe, in whatever namespace. Each deletes its own at its end, unless it is killed: one that is
/// old may be deleted.
pub fn is_check_object(name: &ObjectName) -> bool {
    let mut parts = name.as_str().split('/');
    let is_of_cache = parts.next() == Some("v1") && parts.next().is_some();
    let digits = parts.next().and_then(|target| target.strip_prefix(TARGET));
    let is_target =
        |digits: &str| digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_of_cache && digits.is_some_and(is_target)
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
        assert!(is_check_object(&of(&Namespace::default(), &new_target())));
        let elsewhere = ObjectName::new(format!("v2/check/{}/probe", new_target())).unwrap();
        assert!(!is_check_object(&elsewhere));
    }
}

//! The names of the objects of a cache in an engine:
//!
//! | name | object |
//! |---|---|
//! | `v1/<namespace>/<target>/e/<key>` | an entry without a signature that counts |
//! | `v1/<namespace>/<target>/e/<key>.<signer>` | an entry that this signer vouches for |
//! | `v1/<namespace>/<target>/b/<plan>` | the entries of a plan, in a bundle without a signature that counts |
//! | `v1/<namespace>/<target>/b/<plan>.<signer>` | those in a bundle that this signer vouches for |
//! | `v1/<namespace>/<target>/l/<key>.<generation>` | a lease |
//! | `v1/<namespace>/<target>/p/<plan>` | the progress of a plan |
//!
//! A key and a plan have 64 hexadecimal digits, a signer has 16. Since signed entries have names of their own, an entry that another user
//! stores never hides one. The name proves nothing: the signature in the entry does. All names are shorter than the longest that an engine takes.

use std::fmt;
use std::str::FromStr;

use opkeep_digest::{Digest, Hasher};
use opkeep_trust::SignerId;
use thiserror::Error;

use super::object::ObjectName;

const FORMAT: &str = "v1";
const DEFAULT_NAMESPACE: &str = "default";
const MAX_NAMESPACE: usize = 64;

/// A part of an engine whose entries are kept apart from all others, such as those of a product or a team: 1 to 64 letters,
/// digits, `_`, `-` and `.`, not a `.` first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(String);

/// A text is not the name of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{text}` cannot be a namespace of a remote cache: expected 1 to {MAX_NAMESPACE} letters, digits, `_`, `-` and `.`, not a \
     `.` first"
)]
pub struct NamespaceError {
    /// The text, or its start.
    text: String,
}

impl Namespace {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self(DEFAULT_NAMESPACE.to_owned())
    }
}

impl FromStr for Namespace {
    type Err = NamespaceError;

    fn from_str(text: &str) -> Result<Self, NamespaceError> {
        let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_valid = (1..=MAX_NAMESPACE).contains(&text.len()) && !text.starts_with('.');
        match is_valid && text.bytes().all(is_char) {
            true => Ok(Self(text.to_owned())),
            false => Err(NamespaceError { text: text.chars().take(MAX_NAMESPACE).collect() }),
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The names of the objects of one target.
#[derive(Clone, Debug)]
pub struct ObjectNames {
    prefix: String,
}

impl ObjectNames {
    /// Creates the names for `target`, such as `cpu-x86_64`. `None`: no target has that name.
    pub fn new(namespace: &Namespace, target: &str) -> Option<Self> {
        let prefix = format!("{FORMAT}/{namespace}/{target}/");
        opkeep_store::is_target_name(target).then_some(Self { prefix })
    }

    /// Returns the name of the entry under `key`.
    pub fn entry(&self, key: &Digest) -> ObjectName {
        self.name(format_args!("e/{key}"))
    }

    /// Returns the name of the entry under `key` that `signer` vouches for; without a signer, that of the unsigned one.
    pub fn entry_of(&self, key: &Digest, signer: Option<SignerId>) -> ObjectName {
        match signer {
            None => self.entry(key),
            Some(signer) => self.name(format_args!("e/{key}.{signer}")),
        }
    }

    /// Returns the name of a lease on `key`.
    pub fn lease(&self, key: &Digest, generation: u64) -> ObjectName {
        self.name(format_args!("l/{key}.{generation}"))
    }

    /// Returns the digest of a plan that consists of `keys`, in any order.
    pub fn plan(keys: &[Digest]) -> Digest {
        let mut sorted: Vec<_> = keys.iter().collect();
        opkeep_order::sort(&mut sorted);
        sorted.dedup();
        let mut hasher = Hasher::new("opkeep plan 1");
        hasher.list(sorted.len());
        sorted.into_iter().for_each(|key| hasher.digest(key));
        hasher.finish()
    }

    /// Returns the name of the bundle of the plan with this digest that `signer` vouches for; without a signer, that of the
    /// unsigned one.
    pub fn bundle(&self, plan: &Digest, signer: Option<SignerId>) -> ObjectName {
        match signer {
            None => self.name(format_args!("b/{plan}")),
            Some(signer) => self.name(format_args!("b/{plan}.{signer}")),
        }
    }

    /// Returns the name of the counter of a plan that consists of `keys`, in any order.
    pub fn progress(&self, keys: &[Digest]) -> ObjectName {
        self.name(format_args!("p/{}", Self::plan(keys)))
    }

    fn name(&self, rest: fmt::Arguments<'_>) -> ObjectName {
        ObjectName::of_valid(format!("{}{rest}", self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_plain_names() {
        for name in ["a", "default", "team-1.x_Y", &"n".repeat(64)] {
            assert_eq!(name.parse::<Namespace>().map(|namespace| namespace.to_string()).as_deref(), Ok(name));
        }
        for text in ["", ".", "..", ".a", "a/b", "a b", "ä", &"n".repeat(65)] {
            assert!(text.parse::<Namespace>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_longest_names_are_valid() {
        let (namespace, target) = ("n".repeat(64).parse().unwrap(), "t".repeat(100));
        let names = ObjectNames::new(&namespace, &target).unwrap();
        let key = Digest::of(b"key");
        for name in [names.entry(&key), names.lease(&key, u64::MAX), names.progress(&[key])] {
            assert_eq!(ObjectName::new(name.as_str()).as_ref(), Ok(&name));
        }
        assert!(ObjectNames::new(&namespace, "a/b").is_none());
    }

    #[test]
    fn names_are_the_documented_ones() {
        let names = ObjectNames::new(&Namespace::default(), "cpu-x86_64").unwrap();
        let key = Digest::of(b"key");
        assert_eq!(names.entry(&key).as_str(), format!("v1/default/cpu-x86_64/e/{key}"));
        let signer = "0123456789abcdef".parse().unwrap();
        let signed = format!("v1/default/cpu-x86_64/e/{key}.0123456789abcdef");
        assert_eq!(names.entry_of(&key, Some(signer)).as_str(), signed);
        assert_eq!(names.lease(&key, 3).as_str(), format!("v1/default/cpu-x86_64/l/{key}.3"));
    }

    #[test]
    fn a_plan_is_a_set_of_keys() {
        let names = ObjectNames::new(&Namespace::default(), "cpu-x86_64").unwrap();
        let [one, other] = [Digest::of(b"one"), Digest::of(b"other")];
        assert_eq!(names.progress(&[one, other]), names.progress(&[other, one, other]));
        assert_ne!(names.progress(&[one, other]), names.progress(&[one]));
        let plan = ObjectNames::plan(&[other, one]);
        assert_eq!(names.progress(&[one, other]).as_str(), format!("v1/default/cpu-x86_64/p/{plan}"));
        assert_eq!(names.bundle(&plan, None).as_str(), format!("v1/default/cpu-x86_64/b/{plan}"));
    }
}

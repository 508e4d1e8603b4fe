//! The key of a group of files.

use opkeep_digest::{Digest, Fingerprint, Hasher};

/// The version of the key's algorithm.
pub const GROUP_SCHEMA: u64 = 1;

/// The identity of a group: groups with equal keys are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupKey {
    /// The framework: a namespace, so that the keys of two frameworks differ.
    pub framework: String,
    /// The target, such as `cuda-sm_90`.
    pub target: String,
    /// The framework's own key: a digest of everything that it knows to change the files.
    pub framework_key: Digest,
    /// The name of the group, for a framework that keeps several groups under one key; otherwise empty.
    pub name: String,
    /// The content of the compilers, as far as the framework's key does not cover it.
    pub toolchain: Fingerprint,
}

impl GroupKey {
    /// The key of the entry: a digest of all parts.
    ///
    /// ```
    /// use opkeep_digest::{Digest, Fingerprint};
    /// use opkeep_kernel_entry::GroupKey;
    ///
    /// let mut key = GroupKey {
    ///     framework: "triton".to_owned(),
    ///     target: "cuda-sm_90".to_owned(),
    ///     framework_key: Digest::of(b"source and options"),
    ///     name: "add.json".to_owned(),
    ///     toolchain: Fingerprint::new(),
    /// };
    /// let before = key.digest();
    /// key.toolchain.add("ptxas", Digest::of(b"a newer assembler"), "13.0");
    /// assert_ne!(key.digest(), before);
    /// ```
    pub fn digest(&self) -> Digest {
        let Self { framework, target, framework_key, name, toolchain } = self;
        let mut hasher = Hasher::new("opkeep group of files");
        hasher.u64(GROUP_SCHEMA);
        hasher.str(framework);
        hasher.str(target);
        hasher.digest(framework_key);
        hasher.str(name);
        hasher.digest(&toolchain.digest());
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> GroupKey {
        let mut toolchain = Fingerprint::new();
        toolchain.add("ptxas", Digest::of(b"ptxas"), "12.8");
        GroupKey {
            framework: "triton".to_owned(),
            target: "cuda-sm_90".to_owned(),
            framework_key: Digest::of(b"key"),
            name: "add.json".to_owned(),
            toolchain,
        }
    }

    #[test]
    fn the_key_stays_what_it_is() {
        assert_eq!(
            key().digest().to_string(),
            "17938b76852cff5eced82ea2d703d40acd243c9fc10a0f78fe8182c84281fcbb"
        );
    }

    #[test]
    fn each_part_changes_the_key() {
        let changes: [fn(&mut GroupKey); 6] = [
            |key| key.framework.push('2'),
            |key| key.target.push('a'),
            |key| key.framework_key = Digest::of(b"other"),
            |key| key.name.push('n'),
            |key| key.toolchain.text("more", ""),
            // A text that moves from one part to the next.
            |key| {
                key.framework = "tritoncuda-".to_owned();
                key.target = "sm_90".to_owned();
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut changed = key();
            change(&mut changed);
            assert_ne!(changed.digest(), key().digest(), "change {number}");
        }
    }
}

//! What an object of a cache is, by its name. Objects of other programs have other names.

use std::fmt;

use opkeep_digest::Digest;

use super::names::Namespace;
use super::object::ObjectName;

const SIGNER_DIGITS: usize = 16;

/// The name of an object of a cache, in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredName {
    /// The target, such as `cpu-x86_64`.
    pub target: String,
    /// What the object is.
    pub kind: StoredKind,
}

/// What an object of a cache is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredKind {
    /// An entry.
    Entry {
        /// Its key.
        key: Digest,
        /// The id of the key that signed it; `None` if it is not signed.
        signer: Option<String>,
    },
    /// The entries of a plan.
    Bundle {
        /// The plan.
        plan: Digest,
        /// The id of the key that signed it; `None` if it is not signed.
        signer: Option<String>,
    },
    /// A lease.
    Lease {
        /// The key of the entry that its holder builds.
        key: Digest,
        /// The generation.
        generation: u64,
    },
    /// The progress of a plan.
    Progress {
        /// The plan.
        plan: Digest,
    },
}

impl StoredName {
    /// Returns what the names of all objects in `namespace` begin with.
    pub fn prefix(namespace: &Namespace) -> String {
        format!("v1/{namespace}/")
    }

    /// Parses the name of an object in `namespace`. `None`: it is not one of a cache.
    pub fn parse(namespace: &Namespace, name: &ObjectName) -> Option<Self> {
        let prefix = Self::prefix(namespace);
        let (target, rest) = name.as_str().strip_prefix(&prefix)?.split_once('/')?;
        let (kind, text) = rest.split_once('/')?;
        let (digest, suffix) = match text.split_once('.') {
            Some((digest, suffix)) => (digest.parse().ok()?, Some(suffix)),
            None => (text.parse().ok()?, None),
        };
        let signer = || suffix.map(str::to_owned);
        let kind = match kind {
            "e" => StoredKind::Entry { key: digest, signer: signer() },
            "b" => StoredKind::Bundle { plan: digest, signer: signer() },
            "l" => StoredKind::Lease { key: digest, generation: suffix?.parse().ok()? },
            "p" if suffix.is_none() => StoredKind::Progress { plan: digest },
            _ => return None,
        };
        let is_valid = opkeep_store::is_target_name(target) && kind.signer().is_none_or(is_signer);
        let parsed = Self { target: target.to_owned(), kind };
        // Nothing else is written in this form: no other digits, no zeros in front.
        (is_valid && format!("{prefix}{parsed}") == name.as_str()).then_some(parsed)
    }
}

impl StoredKind {
    /// Returns the id of the key that signed the object.
    pub fn signer(&self) -> Option<&str> {
        match self {
            Self::Entry { signer, .. } | Self::Bundle { signer, .. } => signer.as_deref(),
            Self::Lease { .. } | Self::Progress { .. } => None,
        }
    }
}

fn is_signer(text: &str) -> bool {
    text.len() == SIGNER_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Display for StoredName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.target)?;
        match &self.kind {
            StoredKind::Entry { key, .. } => write!(f, "e/{key}"),
            StoredKind::Bundle { plan, .. } => write!(f, "b/{plan}"),
            StoredKind::Lease { key, generation } => write!(f, "l/{key}.{generation}"),
            StoredKind::Progress { plan } => write!(f, "p/{plan}"),
        }?;
        self.kind.signer().iter().try_for_each(|signer| write!(f, ".{signer}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::ObjectNames;
    use super::*;

    fn parse(name: &ObjectName) -> Option<StoredName> {
        StoredName::parse(&"team-1".parse().unwrap(), name)
    }

    #[test]
    fn own_names_come_back() {
        let namespace = "team-1".parse().unwrap();
        let (names, key) = (ObjectNames::new(&namespace, "cpu-x86_64").unwrap(), Digest::of(b"key"));
        let parsed = |name: &ObjectName| {
            let found = parse(name).unwrap();
            assert_eq!(found.target, "cpu-x86_64");
            found.kind
        };
        assert_eq!(parsed(&names.entry(&key)), StoredKind::Entry { key, signer: None });
        assert_eq!(parsed(&names.lease(&key, 12)), StoredKind::Lease { key, generation: 12 });
        assert!(matches!(parsed(&names.progress(&[key])), StoredKind::Progress { .. }));
        let signed = ObjectName::new(format!("{}.0123456789abcdef", names.entry(&key))).unwrap();
        assert_eq!(parsed(&signed).signer(), Some("0123456789abcdef"));
        let bundle = ObjectName::new(format!("v1/team-1/cpu-x86_64/b/{key}")).unwrap();
        assert_eq!(parsed(&bundle), StoredKind::Bundle { plan: key, signer: None });
    }

    #[test]
    fn other_names_are_foreign() {
        let key = Digest::of(b"key").to_string();
        for name in [
            format!("v1/team-2/cpu/e/{key}"),
            format!("v2/team-1/cpu/e/{key}"),
            format!("v1/team-1/cpu/x/{key}"),
            format!("v1/team-1/cpu/e/{}", &key[1..]),
            format!("v1/team-1/cpu/e/{}", key.to_uppercase()),
            format!("v1/team-1/cpu/e/{key}/more"),
            format!("v1/team-1/cpu/more/e/{key}"),
            format!("v1/team-1/cpu/e/{key}.0123456789abcdeg"),
            format!("v1/team-1/cpu/e/{key}.0"),
            format!("v1/team-1/cpu/l/{key}"),
            format!("v1/team-1/cpu/l/{key}.01"),
            format!("v1/team-1/cpu/l/{key}.-1"),
            format!("v1/team-1/cpu/p/{key}.1"),
            format!("v1/team-1/cpu/{key}"),
            "v1/team-1/notes.txt".to_owned(),
        ] {
            let name = ObjectName::new(name).unwrap();
            assert_eq!(parse(&name), None, "{name}");
        }
    }
}

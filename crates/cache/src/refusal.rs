//! The refusal of an entry of the remote tier.

use opkeep_store::Counter;
use opkeep_trust::Untrusted;

/// The effect of a wrong entry of the remote tier, for people.
pub(crate) const WRONG_ENTRY: &str = "it counts as missing, and the others are still used";

/// The kind of reason why an entry of the remote tier is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// Its bytes are not those that were stored, or it is not the entry of its name.
    Damaged,
    /// It has no signature, and signatures are demanded.
    Unsigned,
    /// It is signed, by no key that is trusted.
    Untrusted,
    /// A signature is not that of the trusted key that it names.
    Forged,
    /// The caller cannot use its content, such as the kernel of another key.
    Invalid,
}

impl RefusalKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Damaged, Self::Unsigned, Self::Untrusted, Self::Forged, Self::Invalid];

    /// Returns the kind's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Unsigned => "unsigned",
            Self::Untrusted => "untrusted",
            Self::Forged => "forged",
            Self::Invalid => "invalid",
        }
    }

    pub(crate) const fn counter(self) -> Counter {
        match self {
            Self::Damaged => Counter::RefusedDamaged,
            Self::Unsigned => Counter::RefusedUnsigned,
            Self::Untrusted => Counter::RefusedUntrusted,
            Self::Forged => Counter::RefusedForged,
            Self::Invalid => Counter::RefusedInvalid,
        }
    }
}

/// The reason why an entry of the remote tier is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) kind: RefusalKind,
    /// For people.
    pub(crate) reason: String,
}

impl Refusal {
    pub(crate) fn damaged(reason: impl ToString) -> Self {
        Self { kind: RefusalKind::Damaged, reason: reason.to_string() }
    }

    pub(crate) fn invalid(reason: impl ToString) -> Self {
        Self { kind: RefusalKind::Invalid, reason: reason.to_string() }
    }

    /// No trusted key vouches for it in `namespace`.
    pub(crate) fn untrusted(untrusted: Untrusted, namespace: &str) -> Self {
        let kind = match untrusted {
            Untrusted::NoSignature => RefusalKind::Unsigned,
            Untrusted::WrongSignature { .. } => RefusalKind::Forged,
            _ => RefusalKind::Untrusted,
        };
        Self { kind, reason: untrusted.in_namespace(namespace).to_string() }
    }
}

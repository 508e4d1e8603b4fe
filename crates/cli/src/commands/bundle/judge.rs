//! The decision whether an entry goes into a bundle, or from a bundle into a store.

use opkeep_bundle::{BundleError, IndexedEntry};
use opkeep_digest::Digest;
use opkeep_kernel_entry::member::HEADER;
use opkeep_kernel_entry::{EntryVerdict, GroupRecord, Header, KeptHere, verify_entry};
use opkeep_store::Entry;
use opkeep_validator::Validator;
use serde::Serialize;

use super::trust::Trust;
use crate::ui::json;
use crate::ui::text::{Text, by_reason, counted, first_names};

/// An entry that is not taken.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LeftOut {
    target: String,
    #[serde(serialize_with = "json::as_text")]
    pub(crate) key: Digest,
    pub(crate) reason: Reason,
    /// The text for people.
    why: String,
}

/// The reason why an entry is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    /// Its bytes are damaged.
    Damaged,
    /// It is no valid kernel of its key.
    Invalid,
    /// It cannot be read, or not be written.
    Io,
    /// `opkeep import` took it from a framework: its toolchain is unknown.
    Imported,
    /// Its files work only on the machine that made them.
    Local,
    /// Its kernel cannot be judged without its backend, or by this version.
    Unverifiable,
    /// No trusted key signed it.
    Untrusted,
}

impl Reason {
    /// Whether it is a problem of the entry or of the store, and no property of a valid kernel.
    pub(crate) fn is_problem(self) -> bool {
        matches!(self, Self::Damaged | Self::Invalid | Self::Io)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Invalid => "invalid",
            Self::Io => "io",
            Self::Imported => "imported",
            Self::Local => "local",
            Self::Unverifiable => "unverifiable",
            Self::Untrusted => "untrusted",
        }
    }
}

impl LeftOut {
    pub(crate) fn new(target: &str, key: &Digest, reason: Reason, why: impl ToString) -> Self {
        Self { target: target.to_owned(), key: *key, reason, why: why.to_string() }
    }

    /// The entry of a bundle that an error is about.
    pub(crate) fn indexed(entry: &IndexedEntry<'_>, error: &BundleError) -> Self {
        let reason = if error.is_io() { Reason::Io } else { Reason::Damaged };
        match error {
            // The other fields name the entry.
            BundleError::Entry { problem, .. } => Self::new(entry.target, entry.key, reason, problem),
            _ => Self::new(entry.target, entry.key, reason, error),
        }
    }
}

/// Judges the kernel in an entry: whether other hosts may be given it, or this host may take it.
///
/// No backend is asked: a build judges by its own rules what it takes from the store.
pub(crate) fn judge(
    target: &str,
    entry: &Entry,
    trust: &Trust,
    validator: &Validator,
) -> Result<(), LeftOut> {
    let left_out = |reason, why: String| LeftOut::new(target, entry.key(), reason, why);
    let kept = match KeptHere::of(entry) {
        Some(KeptHere::Imported) => {
            Some((Reason::Imported, "it was imported from a framework, so its toolchain is unknown"))
        }
        Some(KeptHere::Local) => Some((Reason::Local, "its files work only on the machine that made them")),
        // A record that cannot be read is a problem of the entry, which the verification states.
        Some(KeptHere::Unknown) | None => None,
    };
    if let Some((reason, why)) = kept {
        return Err(left_out(reason, why.to_owned()));
    }
    trust.check(target, entry).map_err(|why| left_out(Reason::Untrusted, why))?;
    match verify_entry(entry, target, validator) {
        EntryVerdict::Valid => Ok(()),
        EntryVerdict::Unverifiable { why } => Err(left_out(Reason::Unverifiable, why)),
        EntryVerdict::Invalid(error) => Err(left_out(Reason::Invalid, error.to_string())),
    }
}

/// Returns what people call the kernel in an entry: its name, and who made it.
pub(crate) fn kernel_name(entry: &Entry) -> String {
    if let Some(group) = GroupRecord::of(entry) {
        return group.to_string();
    }
    let header = entry.lazy_member(HEADER).ok().flatten().and_then(Header::parse);
    header.map(|header| format!("{} ({})", header.name, header.op_type)).unwrap_or_default()
}

/// Returns a line for each reason, with the number of entries and the first of them, and the number of entries that are not listed.
pub(crate) fn left_out_text(left_out: &[LeftOut], text: &mut Text) {
    /// The maximum number of reasons that are listed.
    const MAX_LISTED: usize = 20;
    /// The maximum number of keys that a line lists.
    const MAX_KEYS: usize = 2;
    let reasons = by_reason(left_out.iter().map(|left| ((left.reason, &left.target, &left.why), left.key)));
    let line = |((reason, target, why), keys): &((Reason, &String, &String), Vec<Digest>)| {
        let count =
            if let [_, _, ..] = &keys[..] { counted(keys.len(), "kernel") + ": " } else { String::new() };
        let keys = first_names(keys.iter().map(Digest::to_string), MAX_KEYS);
        format!("  {:<12} {count}{keys} of {target}: {why}", reason.name())
    };
    reasons.iter().take(MAX_LISTED).for_each(|reason| text.line(line(reason)));
    let more: usize = reasons.iter().skip(MAX_LISTED).map(|(_, keys)| keys.len()).sum();
    if more > 0 {
        text.line(format_args!("  and {} more", counted(more, "kernel")));
    }
}

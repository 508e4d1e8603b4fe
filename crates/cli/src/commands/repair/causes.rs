//! What the reports of repairs share: lists, and the causes for which something stays.

use opkeep_framework_cache::quarantine::SkipCause;
use opkeep_framework_cache::scan::InUse;

use crate::ui::text::Text;

/// The number of items that are listed in text; JSON has all.
const MAX_LISTED: usize = 50;

/// Adds the first lines, and the number of the others.
pub(super) fn list(text: &mut Text, lines: impl Iterator<Item = String>) {
    text.list(lines, MAX_LISTED, |more| format!("  and {more} more, which --format json names"));
}

/// Whether `--force` would quarantine what this is the cause for.
pub(super) fn is_forced(cause: &SkipCause) -> bool {
    matches!(cause, SkipCause::InProgress(InUse::RecentlyWritten { .. } | InUse::Open { .. }))
}

/// Returns the name of a cause in JSON output.
pub(super) fn cause_name(cause: &SkipCause) -> &'static str {
    match cause {
        SkipCause::InProgress(InUse::Locked) | SkipCause::Lock(_) => "locked",
        SkipCause::InProgress(_) => "in-progress",
        SkipCause::Changed { .. } | SkipCause::Changing => "changed",
        SkipCause::Unreadable { .. } => "unreadable",
        SkipCause::OtherChip(_) => "other-chip",
        SkipCause::Installed => "installed",
        SkipCause::NotAFile { .. } => "not-a-file",
        SkipCause::Displaced { .. } => "astray",
        _ => "failed",
    }
}

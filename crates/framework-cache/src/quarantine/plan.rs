//! The plan of a quarantine: the files to move, and the items to skip.

use std::collections::HashSet;

use crate::quarantine::partners::partners;
use crate::quarantine::skipped::{SkipCause, SkippedItem};
use crate::scan::{CacheScan, Item, ItemKind, ItemProblem, ItemState, Kind};
use opkeep_fs::FileState;
use opkeep_kernel_meta::InUse;

/// The sets of files to move, and the items to skip.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) sets: Vec<Set<'a>>,
    pub(crate) skipped: Vec<SkippedItem>,
}

/// The files of one damaged item or orphan.
#[derive(Debug)]
pub(crate) struct Set<'a> {
    pub(crate) item: &'a Item,
    /// The files to move, with the states in which they were judged, in the order of the moves.
    pub(crate) files: Vec<(String, FileState)>,
    /// The names of objects and libraries that the moved descriptions may describe, and that stay if they exist and no
    /// other set has them.
    pub(crate) stay: Vec<String>,
    /// The files to move, and the files that stay, with their states at the beginning of the repair.
    pub(crate) judged: Vec<(String, FileState)>,
    /// The names of files that were missing when the item was judged. If one exists now, the item has changed.
    pub(crate) absent: Vec<String>,
    /// The names of the vendor's locks for the item.
    pub(crate) locks: Vec<String>,
    pub(crate) why: String,
}

/// Returns the plan for a scanned cache; with `force`, items in progress are moved, too.
pub(crate) fn plan(scan: &CacheScan, force: bool) -> Plan<'_> {
    let mut plan = Plan { sets: Vec::new(), skipped: Vec::new() };
    // A kernel and its object may have different names, so a file of a damaged kernel may be the object of another
    // kernel.
    let mut claimed: HashSet<(Option<&str>, String)> = HashSet::new();
    for item in scan.items.iter().filter(|item| matches!(item.state, ItemState::Intact)) {
        claimed.extend(item.files().into_iter().map(|file| (item.below, file)));
    }
    let mut sets = Vec::new();
    for item in &scan.items {
        match skip_cause(item, scan.cache.kind, force) {
            _ if matches!(item.state, ItemState::Intact) => {}
            Some(why) => {
                claimed.extend(item.files().into_iter().map(|file| (item.below, file)));
                plan.skipped.push(SkippedItem::of(item, why));
            }
            None => sets.push(item),
        }
    }
    let mut in_sets = HashSet::new();
    sets.into_iter().for_each(|item| plan.add(item, scan.cache.kind, &claimed, &mut in_sets));
    plan
}

/// Returns the reason why an item that is not intact is skipped, if it is.
fn skip_cause(item: &Item, kind: Kind, force: bool) -> Option<SkipCause> {
    match (&item.state, item.in_use) {
        (ItemState::Changing, _) => Some(SkipCause::Changing),
        (ItemState::Unreadable { file, problem }, _) => {
            Some(SkipCause::Unreadable { file: file.clone(), problem: problem.clone() })
        }
        (ItemState::OtherChip(other), _) => Some(SkipCause::OtherChip(other.clone())),
        (_, _) if kind == Kind::Package => Some(SkipCause::Installed),
        // Frameworks follow links: for a framework, the kernel may be intact, or the framework writes a new kernel
        // through the link.
        (ItemState::Damaged(problems), _)
            if problems.iter().any(|problem| problem.non_file_name().is_some()) =>
        {
            let file = problems.iter().find_map(ItemProblem::non_file_name).unwrap_or_default();
            Some(SkipCause::NotAFile { file: file.to_owned() })
        }
        (_, Some(in_use)) if !force || in_use == InUse::Locked => Some(SkipCause::InProgress(in_use)),
        (_, _) => None,
    }
}

impl<'a> Plan<'a> {
    /// Adds the set of an item, without files that intact or skipped kernels have `claimed`, and without files that
    /// are `in_sets` already.
    fn add(
        &mut self,
        item: &'a Item,
        kind: Kind,
        claimed: &HashSet<(Option<&'a str>, String)>,
        in_sets: &mut HashSet<(Option<&'a str>, String)>,
    ) {
        let (mut files, mut absent) = (Vec::new(), missing_files(item));
        for (file, seen) in &item.judged {
            match seen {
                Some(_) if claimed.contains(&(item.below, file.clone())) => {}
                Some(seen) if in_sets.insert((item.below, file.clone())) => files.push((file.clone(), *seen)),
                Some(_) => {}
                None => absent.push(file.clone()),
            }
        }
        // The description is moved first, the lock file last.
        opkeep_order::by_key(&mut files, |(file, _)| match () {
            () if file.ends_with(".json") => 0,
            () if file.ends_with(".lock") => 2,
            () => 1,
        });
        let locks = match (kind, item.kind) {
            (_, ItemKind::Lock) => files.iter().map(|(file, _)| file.clone()).collect(),
            (Kind::Cann, ItemKind::Kernel) => vec![format!("{}.lock", item.name)],
            (Kind::Cann, ItemKind::Precompile) => vec![format!("{}_pre.lock", item.name)],
            _ => Vec::new(),
        };
        if files.is_empty() {
            let file = absent.into_iter().next().unwrap_or_else(|| item.name.clone());
            return self.skipped.push(SkippedItem::of(item, SkipCause::Changed { file }));
        }
        // An object that no kernel claims was written after the scan. Libraries need no description.
        let may_stay = |file: &String| !file.ends_with(".o") || claimed.contains(&(item.below, file.clone()));
        let stay = files.iter().filter(|(file, _)| file.ends_with(".json"));
        let stay = stay.flat_map(|(file, _)| partners(file)).filter(may_stay).collect();
        let judged = files.clone();
        self.sets.push(Set { item, files, stay, judged, absent, locks, why: item.problem() });
    }
}

/// Returns the files whose absence makes a kernel damaged or an orphan. If one exists now, the kernel may be intact.
fn missing_files(item: &Item) -> Vec<String> {
    let expected = |problem: &ItemProblem| match problem {
        ItemProblem::NoObject { expected } => expected.split(" or ").map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    match &item.state {
        ItemState::Damaged(problems) => problems.iter().flat_map(expected).collect(),
        ItemState::Orphan(_) if item.kind == ItemKind::Kernel => vec![format!("{}.json", item.name)],
        _ => Vec::new(),
    }
}

impl ItemProblem {
    /// Returns the name under which there is another type of file.
    fn non_file_name(&self) -> Option<&str> {
        match self {
            Self::NotAFile { file } => Some(file),
            _ => None,
        }
    }
}

impl Item {
    /// Returns the problem of the item in one line; empty if the item is intact.
    pub fn problem(&self) -> String {
        match &self.state {
            ItemState::Damaged(problems) => {
                problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
            ItemState::Orphan(orphan) => orphan.to_string(),
            ItemState::OtherChip(other) => other.to_string(),
            ItemState::Unreadable { file, problem } => format!("`{file}` cannot be read: {problem}"),
            ItemState::Changing => "it changed whenever it was read".to_owned(),
            ItemState::Intact => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::{Effect, FrameworkBehavior, Orphan};
    use opkeep_cann_meta::file_names::FileSet;

    #[test]
    fn locked_files_stay_even_with_force() {
        let item = |in_use| Item {
            kind: ItemKind::Kernel,
            name: "a".to_owned(),
            below: None,
            state: ItemState::Orphan(Orphan::ObjectOnly),
            in_use,
            behavior: FrameworkBehavior { effect: Effect::RecompiledEveryTime, text: "".into() },
            notes: Vec::new(),
            kernel: None,
            chip: None,
            members: FileSet::O,
            object: None,
            named: Vec::new(),
            is_read: false,
            judged: Vec::new(),
        };
        let skip_cause = |in_use, force| skip_cause(&item(in_use), Kind::Cann, force).is_some();
        let (young, open) = (Some(InUse::RecentlyWritten { seconds: 1 }), Some(InUse::Open { process: 1 }));
        for (in_use, usually, by_force) in [
            (None, false, false),
            (young, true, false),
            (open, true, false),
            (Some(InUse::Locked), true, true),
        ] {
            assert_eq!(
                (skip_cause(in_use, false), skip_cause(in_use, true)),
                (usually, by_force),
                "{in_use:?}"
            );
        }
    }
}

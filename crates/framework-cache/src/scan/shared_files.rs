//! Files that several descriptions name. A file of an intact kernel is removed from damaged items and orphans.

use std::collections::HashSet;

use crate::scan::behavior;
use crate::scan::cache_dir::Kind;
use crate::scan::item::{Item, ItemKind, ItemProblem, ItemState, Orphan};
use opkeep_cann_meta::file_names::FileSet;
use opkeep_fs::Dir;

/// Removes files that belong to other items from the items from the index `first` on, which are all in one directory.
/// An orphan is removed if a description names it.
pub(crate) fn resolve(dir: &Dir, kind: Kind, items: &mut Vec<Item>, first: usize) {
    let Some(new) = items.get_mut(first..) else { return };
    if matches!(kind, Kind::Cann | Kind::Package | Kind::Work) {
        mark_jsons_of_other_kernels(dir, kind, new);
    }
    let named: HashSet<String> =
        new.iter().flat_map(|item| &item.named).map(|name| name.to_string()).collect();
    if !named.is_empty() {
        let needed: HashSet<String> =
            new.iter().filter(|item| !is_damaged(item)).flat_map(|item| needed_by(item, &named)).collect();
        new.iter_mut()
            .filter(|item| is_damaged(item))
            .for_each(|item| remove_files_of_others(item, &needed, &named));
        let mut at = 0;
        items.retain(|item| {
            at += 1;
            at <= first || !is_remains(item) || item.members.has(FileSet::OBJECTS.with(FileSet::HEADER))
        });
    }
    // MindSpore finds files by the stem only, so no unread description names a file.
    if matches!(kind, Kind::Cann | Kind::Package | Kind::Work) {
        mark_undecided(kind, items.get_mut(first..).unwrap_or_default());
    }
}

/// Finds descriptions that replaced another kernel's one: an object with the item's stem exists, but the description
/// names the object of another intact kernel. The framework does not notice that, and runs the other kernel.
fn mark_jsons_of_other_kernels(dir: &Dir, kind: Kind, items: &mut [Item]) {
    let pairs = |item: &&Item| {
        let is_kernel = item.kernel.is_some() && item.members.has(FileSet::JSON);
        is_kernel && item.object.is_none() && item.members.has(FileSet::O)
    };
    let is_suspect =
        |item: &Item| item.kernel.is_some() && item.object.is_some() && item.members.has(FileSet::O);
    if !items.iter().any(is_suspect) {
        return;
    }
    let owners: HashSet<String> =
        items.iter().filter(pairs).map(|item| FileSet::O.name(&item.name)).collect();
    for item in items.iter_mut().filter(|item| is_suspect(item)) {
        let Some(object) = item.object.as_deref().filter(|object| owners.contains(*object)) else { continue };
        item.state = ItemState::Damaged(vec![ItemProblem::JsonOfOtherKernel { object: object.to_owned() }]);
        (item.kernel, item.chip) = (None, None);
        behavior::update(kind, item);
        item.record_states(dir);
    }
}

fn is_damaged(item: &Item) -> bool {
    matches!(item.state, ItemState::Damaged(_) | ItemState::Orphan(_))
}

/// Returns whether an item is only an object or a header.
fn is_remains(item: &Item) -> bool {
    matches!(item.state, ItemState::Orphan(Orphan::ObjectOnly | Orphan::HeaderOnly))
}

/// Returns the files among the `named` ones that an intact item needs.
fn needed_by<'a>(item: &'a Item, named: &'a HashSet<String>) -> impl Iterator<Item = String> + 'a {
    let own = item.members.names(&item.name).filter(|file| named.contains(file));
    own.chain(item.named.iter().map(|name| name.to_string()))
}

fn remove_files_of_others(item: &mut Item, needed: &HashSet<String>, named: &HashSet<String>) {
    // A file that any description names does not belong to an orphan, even if that description is damaged.
    let named_by_others = if is_remains(item) { named } else { needed };
    let name = &item.name;
    item.members = item.members.filter(|member| !named_by_others.contains(&member.name(name)));
    item.object = item.object.take().filter(|object| !needed.contains(&**object));
    let files = item.files();
    item.judged.retain(|(file, _)| files.contains(file));
}

/// Makes orphans undecided if a description was not read, since it may describe any of them.
fn mark_undecided(kind: Kind, items: &mut [Item]) {
    let is_unread = |item: &&Item| {
        let has_json = item.kind == ItemKind::Kernel && item.members.has(FileSet::JSON);
        has_json && !item.is_read && !is_damaged(item)
    };
    let Some(unread) = items.iter().find(is_unread).map(|item| item.name.clone()) else { return };
    for item in items.iter_mut().filter(|item| is_remains(item)) {
        item.state = ItemState::Unreadable {
            file: format!("{unread}.json"),
            problem: "it may describe this file, so the state of this file is unknown".to_owned(),
        };
        behavior::update(kind, item);
    }
}

//! Notes about kernels that a [`View`](opkeep_kernel_meta::View) wrote.

use opkeep_fs::{Dir, FileRead};
use opkeep_kernel_meta::manifest::{self, Manifest};
use opkeep_kernel_meta::view_dir::MAX_READ;

use crate::scan::extract::is_as_written;
use crate::scan::item::{Item, Note};

/// Removes the notes on the names and the chips of kernels that a view wrote to `dir` and no program has changed since:
/// the user requested these names and this target.
pub(crate) fn remove(dir: &Dir, items: &mut [Item]) {
    let has_any = |item: &Item| item.notes.iter().any(is_requested);
    if !items.iter().any(has_any) {
        return;
    }
    let mut text = Vec::new();
    let FileRead::Complete(_) = dir.read(manifest::NAME, MAX_READ, &mut text) else { return };
    let manifest = Manifest::parse(&text);
    for item in items.iter_mut().filter(|item| has_any(item)) {
        let record = manifest.kernels.get(item.name.as_str());
        if record.is_some_and(|record| is_as_written(dir, &item.name, record)) {
            item.notes.retain(|note| !is_requested(note));
        }
    }
}

/// Returns whether a note is on a property that a view writes as the user requested.
fn is_requested(note: &Note) -> bool {
    matches!(note, Note::KernelName { .. } | Note::DescriptorName { .. } | Note::OwnOtherChip(_))
}

//! Pairs of files that must fit each other: a description, and the objects that it may describe.

use opkeep_cann_meta::file_names::FileSet;
use opkeep_fs::Dir;
use opkeep_kernel_meta::displace::{digest_of, stated};

/// Returns the names of the objects that a description may describe, or of the descriptions that may describe an
/// object; empty for other files.
pub(crate) fn partners(file: &str) -> Vec<String> {
    if let Some(stem) = file.strip_suffix(".json") {
        return FileSet::OBJECTS.names(stem).collect();
    }
    let Some(stem) = [".o", ".so", ".ptx"].iter().find_map(|suffix| file.strip_suffix(suffix)) else {
        return Vec::new();
    };
    let of_library = stem.strip_prefix("lib").filter(|_| file.ends_with(".so"));
    [Some(stem), of_library].into_iter().flatten().map(|stem| format!("{stem}.json")).collect()
}

/// Returns whether a description may describe the file.
pub(crate) fn is_object(file: &str) -> bool {
    !file.ends_with(".json") && !partners(file).is_empty()
}

/// Returns whether two files, each with its directory, are a description and the object whose digest it states.
pub(crate) fn is_pair(one: (&Dir, &str), other: (&Dir, &str)) -> bool {
    let ((dir, json), (object_dir, object)) =
        if one.1.ends_with(".json") { (one, other) } else { (other, one) };
    stated(dir, json).is_some_and(|stated| digest_of(object_dir, object) == Some(stated))
}

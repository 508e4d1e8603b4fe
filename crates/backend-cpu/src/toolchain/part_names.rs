//! The names of parts of the key, and which of them follow from others.

use opkeep_digest::PartChange;

/// The flags that every compile gets: they follow from the version, the triple and the arguments.
pub(super) const FLAGS: &str = "flags";
/// The arguments of the compiler's own programs.
pub(super) const STEPS: &str = "arguments of each step";
pub(super) const ORDER: &str = "order of files read";
pub(super) const INTERMEDIATE: &str = "intermediate files";
pub(super) const LOOKED_UP: &str = "paths looked up";
pub(super) const OBJECT: &str = "object of the probe";
/// The content of a header, a flag file or an archive.
pub(super) const FILE_READ: &str = "file read";
/// What the linker reads for the mathematical library.
pub(crate) const LIBM: &str = "libm";

/// Whether a change follows from changes of other parts. A file with another content does not; that one more is read, does.
pub(crate) fn is_consequence(change: &PartChange) -> bool {
    match change.name.as_str() {
        FLAGS | STEPS | ORDER | INTERMEDIATE | LOOKED_UP | OBJECT | LIBM => true,
        FILE_READ => change.old.is_none() || change.new.is_none(),
        _ => false,
    }
}

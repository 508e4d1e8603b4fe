//! Paths that may be read although no key contains them, and the check whether a path is below a directory.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;
use opkeep_process::Unkeyed;

/// A path and why it may be read.
pub(crate) type Reasoned = (PathBuf, &'static str);

/// The paths of a system that Python and its extension modules read besides those that [`Unkeyed`] covers, with the
/// reason why they do not affect kernels.
pub(crate) const UNKEYED: [(&str, &str); 8] = [
    ("/usr/share/i18n", "character classes; the locale is C.UTF-8"),
    ("/usr/lib/gconv", "conversions between encodings"),
    ("/usr/lib64/gconv", "conversions between encodings"),
    ("/usr/lib/x86_64-linux-gnu/gconv", "conversions between encodings"),
    ("/usr/lib/aarch64-linux-gnu/gconv", "conversions between encodings"),
    ("/etc/hosts", "the names of hosts"),
    ("/etc/ssl/openssl.cnf", "the configuration of hash functions, which do not differ by it"),
    ("/usr/lib/ssl/openssl.cnf", "the configuration of hash functions, which do not differ by it"),
];

/// Whether a path may be read although no key contains it.
pub(crate) fn is_unkeyed(path: &Path) -> bool {
    Unkeyed::covering(path).is_some() || UNKEYED.iter().any(|(unkeyed, _)| path.starts_with(unkeyed))
}

/// Directories by their names and with their links resolved. Each is resolved only once, since a record checks
/// thousands of paths.
#[derive(Clone, Debug)]
pub(crate) struct Directories(HashSet<PathBuf>);

impl Directories {
    pub(crate) fn of<'a>(reasoned: impl IntoIterator<Item = &'a Reasoned>) -> Self {
        let both = |(path, _): &Reasoned| [path.clone(), Fs::new().resolved(path)];
        Self(reasoned.into_iter().flat_map(both).collect())
    }

    /// Whether a path is below one of them, by its name or with its links resolved.
    pub(crate) fn contain(&self, path: &Path) -> bool {
        let is_below = |path: &Path| path.ancestors().any(|one| self.0.contains(one));
        is_below(path) || is_below(&Fs::new().resolved(path))
    }
}

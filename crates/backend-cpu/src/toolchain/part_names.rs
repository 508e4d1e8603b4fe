//! The names of parts of the key, which of them follow from others, and how people call them.

use std::path::Path;

use opkeep_digest::{Digest, Part, PartChange};

use super::words;

/// The program that is called.
pub(super) const DRIVER: &str = "driver";
/// The name by which a wrapper is called.
pub(super) const CALLED_AS: &str = "called as";
/// The flags that every compile gets: they follow from the version, the triple and the arguments.
pub(super) const FLAGS: &str = "flags";
/// The arguments of the compiler's own programs.
pub(super) const STEPS: &str = "arguments of each step";
pub(super) const ORDER: &str = "order of files read";
pub(super) const INTERMEDIATE: &str = "intermediate files";
pub(super) const LOOKED_UP: &str = "paths looked up";
pub(super) const OBJECT: &str = "object of the probe";
/// The content of a header, a flag file or an archive. Of several, each has a number.
pub(super) const FILE_READ: &str = "file read";
/// What the linker reads for the mathematical library.
pub(crate) const LIBM: &str = "libm";

/// Returns the note of a part that is the content of a file: `pre.h 0123456789ab`.
pub(super) fn note_of_file(path: &Path, digest: &Digest) -> String {
    format!("{} {:.12}", words::name_of(path), digest.to_string())
}

/// Returns the file's name in a [note](note_of_file).
fn file_of(part: &Part) -> Option<&str> {
    part.note.rsplit_once(' ').map(|(name, _)| name)
}

/// Whether a part is the content of a header, a flag file or an archive.
fn is_file_read(name: &str) -> bool {
    name.strip_prefix(FILE_READ).is_some_and(|number| {
        number.is_empty() || number.strip_prefix(' ').is_some_and(|number| number.parse::<usize>().is_ok())
    })
}

/// Whether a change follows from changes of other parts. A file with another content does not; that one more is read, does.
pub(crate) fn is_consequence(change: &PartChange) -> bool {
    match change.name.as_str() {
        FLAGS | STEPS | ORDER | INTERMEDIATE | LOOKED_UP | OBJECT | LIBM => true,
        name if is_file_read(name) => change.old.is_none() || change.new.is_none(),
        _ => false,
    }
}

/// Returns a change in words, of parts whose names do not say what they are.
pub(crate) fn describe_change(change: &PartChange) -> Option<String> {
    let (old, new) = (change.old.as_ref(), change.new.as_ref());
    match change.name.as_str() {
        CALLED_AS => Some(match (old, new) {
            (_, Some(new)) => format!("compiler is called through {}", new.note),
            (Some(old), None) => format!("compiler is no longer called through {}", old.note),
            (None, None) => return None,
        }),
        DRIVER => file_change("compiler", old, new),
        name if is_file_read(name) => file_change("file", old, new),
        _ => None,
    }
}

fn file_change(what: &str, old: Option<&Part>, new: Option<&Part>) -> Option<String> {
    match (old.map(file_of), new.map(file_of)) {
        (Some(Some(old)), Some(Some(new))) if old == new => Some(format!("{what} {new}: other content")),
        (Some(Some(old)), Some(Some(new))) => Some(format!("{what} {new} in place of {old}")),
        (None, Some(Some(new))) => Some(format!("new in the toolchain: {what} {new}")),
        (Some(Some(old)), None) => Some(format!("no longer in the toolchain: {what} {old}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use opkeep_digest::Fingerprint;

    use super::*;

    /// A toolchain with these files, each as its part's name, the file's name and its content.
    fn toolchain(files: &[(&str, &str, &str)]) -> Fingerprint {
        let mut fingerprint = Fingerprint::new();
        for (name, file, content) in files {
            let digest = Digest::of(content.as_bytes());
            fingerprint.add(*name, digest, note_of_file(Path::new(file), &digest));
        }
        fingerprint
    }

    #[test]
    fn files_are_named_in_a_change() {
        let old = toolchain(&[
            (DRIVER, "/usr/bin/my cc", "1"),
            ("cc1", "/usr/lib/cc1", "1"),
            (FILE_READ, "a.h", "1"),
        ]);
        for (new, expected) in [
            (
                [(DRIVER, "/opt/my cc", "2"), ("cc1", "/usr/lib/cc1", "2"), (FILE_READ, "/x/a.h", "2")]
                    .as_slice(),
                ["compiler my cc: other content", "cc1 has its own name", "file a.h: other content"]
                    .as_slice(),
            ),
            (
                &[(DRIVER, "gcc", "2"), ("cc1", "cc1", "1"), (FILE_READ, "b.h", "2")],
                &["compiler gcc in place of my cc", "file b.h in place of a.h"],
            ),
            (
                &[
                    (DRIVER, "my cc", "1"),
                    ("cc1", "cc1", "1"),
                    (FILE_READ, "a.h", "1"),
                    ("file read 2", "c.h", "2"),
                ],
                &["new in the toolchain: file c.h"],
            ),
            (&[(DRIVER, "my cc", "1"), ("cc1", "cc1", "1")], &["no longer in the toolchain: file a.h"]),
        ] {
            let changes = old.diff(&toolchain(new));
            let described = changes.iter().map(|change| {
                describe_change(change).unwrap_or_else(|| format!("{} has its own name", change.name))
            });
            assert_eq!(described.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_wrapper_is_named() {
        let called = |name: Option<&str>| {
            let mut fingerprint = Fingerprint::new();
            name.into_iter().for_each(|name| fingerprint.text(CALLED_AS, name));
            fingerprint
        };
        let described = |old: Option<&str>, new: Option<&str>| {
            let changes = called(old).diff(&called(new));
            describe_change(changes.first()?)
        };
        assert_eq!(described(None, Some("my-cc")).unwrap(), "compiler is called through my-cc");
        assert_eq!(described(Some("my-cc"), Some("other")).unwrap(), "compiler is called through other");
        assert_eq!(described(Some("my-cc"), None).unwrap(), "compiler is no longer called through my-cc");
    }

    #[test]
    fn each_file_is_one_by_its_number() {
        for (name, expected) in [
            ("file read", true),
            ("file read 12", true),
            ("file read2", false),
            ("file read x", false),
            ("driver", false),
        ] {
            assert_eq!(is_file_read(name), expected, "{name}");
        }
    }
}

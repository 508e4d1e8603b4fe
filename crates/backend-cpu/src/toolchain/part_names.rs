//! The names of parts of the key, which of them follow from others, and how people call them.

use std::path::Path;

use opkeep_digest::{Digest, Hasher, Part, PartChange};

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
    name.strip_prefix(FILE_READ).is_some_and(|which| which.is_empty() || which.starts_with(' '))
}

/// Returns the changes in which files that are read are compared by their names, and have these instead of numbers: one more file gives
/// all that follow it other numbers. Files in another order alone stay as they are: no difference would be left.
pub(crate) fn align_changes(changes: Vec<PartChange>) -> Vec<PartChange> {
    let aligned = by_file_names(changes.clone());
    if aligned.is_empty() { changes } else { aligned }
}

fn by_file_names(changes: Vec<PartChange>) -> Vec<PartChange> {
    let (mut old, mut new, mut aligned) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        let has_name = |part: &Option<Part>| part.as_ref().is_none_or(|part| file_of(part).is_some());
        match is_file_read(&change.name) && has_name(&change.old) && has_name(&change.new) {
            true => {
                old.extend(change.old);
                new.extend(change.new);
            }
            false => aligned.push(change),
        }
    }
    let mut take = |like: &dyn Fn(&Part) -> bool| new.iter().position(like).map(|at| new.remove(at));
    old.retain(|part| {
        take(&|other| file_of(other) == file_of(part) && other.digest == part.digest).is_none()
    });
    let name = |part: &Part| format!("{FILE_READ} {}", file_of(part).unwrap_or_default());
    for part in old {
        let new = take(&|other| file_of(other) == file_of(&part));
        aligned.push(PartChange { name: name(&part), old: Some(part), new });
    }
    aligned.extend(new.into_iter().map(|part| PartChange { name: name(&part), old: None, new: Some(part) }));
    aligned
}

/// Returns the note of the mathematical library: `libm.so.6 0123456789ab` has the name of its first file and a digest of the contents.
/// The part's own digest is also of the steps that read it.
pub(super) fn note_of_libm<'a>(files: impl IntoIterator<Item = (&'a Path, Option<Digest>)>) -> String {
    let (mut hasher, mut first) = (Hasher::new("opkeep cpu libm content 1"), None);
    for (path, digest) in files {
        let name = words::name_of(path);
        hasher.str(&name);
        hasher.option(digest.is_some());
        if let Some(digest) = digest {
            hasher.digest(&digest);
        }
        first = first.or(Some(name));
    }
    format!("{} {:.12}", first.as_deref().unwrap_or("none"), hasher.finish().to_string())
}

/// Whether the contents of the mathematical library differ. Entries of earlier versions do not state them.
fn has_other_libm(change: &PartChange) -> bool {
    let PartChange { old: Some(old), new: Some(new), .. } = change else { return false };
    file_of(old).is_some() && file_of(new).is_some() && old.note != new.note
}

/// Whether a change follows from changes of other parts. A file with another content does not; that one more is read, does.
pub(crate) fn is_consequence(change: &PartChange) -> bool {
    match change.name.as_str() {
        FLAGS | STEPS | ORDER | INTERMEDIATE | LOOKED_UP | OBJECT => true,
        LIBM => !has_other_libm(change),
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

    /// One more file gives all that follow it other numbers: these did not change.
    #[test]
    fn files_are_compared_by_their_names() {
        let read = |files: &[(&str, &str)]| {
            let names = ["file read", "file read 2", "file read 3", "file read 4"];
            let content = |(file, content): &(&str, &str)| format!("{file} {content}");
            let contents: Vec<String> = files.iter().map(content).collect();
            let files = names.iter().zip(files).zip(&contents);
            let files = files.map(|((name, (file, _)), content)| (*name, *file, content.as_str()));
            toolchain(&[(DRIVER, "cc", "1")].into_iter().chain(files).collect::<Vec<_>>())
        };
        let old = read(&[("a.h", "1"), ("b.h", "1"), ("c.h", "1")]);
        for (new, expected) in [
            (&[("new.h", "1"), ("a.h", "1"), ("b.h", "1"), ("c.h", "1")][..], &["file read new.h: new"][..]),
            (
                &[("new.h", "1"), ("a.h", "1"), ("b.h", "2"), ("c.h", "1")],
                &["file read b.h: changed", "file read new.h: new"],
            ),
            (&[("b.h", "1"), ("c.h", "2")], &["file read a.h: gone", "file read c.h: changed"]),
            (&[("c.h", "1"), ("b.h", "1"), ("a.h", "1")], &["file read: changed", "file read 3: changed"]),
        ] {
            let changes = align_changes(old.diff(&read(new)));
            let shown = changes.iter().map(|change| {
                let state = match (&change.old, &change.new) {
                    (Some(_), Some(_)) => "changed",
                    (Some(_), None) => "gone",
                    _ => "new",
                };
                format!("{}: {state}", change.name)
            });
            assert_eq!(shown.collect::<Vec<_>>(), expected);
            let is_content = |change: &PartChange| change.old.is_some() && change.new.is_some();
            assert!(changes.iter().all(|change| is_consequence(change) != is_content(change)), "{changes:?}");
        }
        // Other parts stay as they are.
        let changes = old.diff(&toolchain(&[(DRIVER, "cc", "2")]));
        let aligned = align_changes(changes.clone());
        assert_eq!((aligned.len(), &aligned[0]), (4, &changes[0]));
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

    /// The mathematical library is a cause of its own if a file of it changed, and a consequence if it is only read in another way.
    #[test]
    fn another_libm_is_a_cause() {
        let libm = |steps: &str, content: &str, has_note: bool| {
            let file = (Path::new("/usr/lib/libm.so.6"), Some(Digest::of(content.as_bytes())));
            let digest = Digest::of(format!("{steps} {content}").as_bytes());
            let note = if has_note { note_of_libm([file]) } else { format!("{:.12}", digest.to_string()) };
            let mut fingerprint = Fingerprint::new();
            fingerprint.add(LIBM, digest, note);
            fingerprint
        };
        let old = libm("-O2", "1", true);
        for (new, expected) in [
            (libm("-O1", "1", true), true),
            (libm("-O2", "2", true), false),
            (libm("-O1", "2", true), false),
            (libm("-O1", "2", false), true),
        ] {
            let changes = old.diff(&new);
            assert_eq!(changes.iter().map(is_consequence).collect::<Vec<_>>(), [expected], "{changes:?}");
        }
        assert!(old.parts()[0].note.starts_with("libm.so.6 "), "{old:?}");
    }

    #[test]
    fn each_file_is_one_by_its_number() {
        for (name, expected) in [
            ("file read", true),
            ("file read 12", true),
            ("file read pre.h", true),
            ("file read2", false),
            ("driver", false),
        ] {
            assert_eq!(is_file_read(name), expected, "{name}");
        }
    }
}

//! Renames files between directories without ever replacing a file.

use std::io;

use opkeep_fs::{Dir, FileState, cannot_rename_new};
use rustix::io::Errno;

use crate::own_name::{OWN, displaced_as};

/// Renames `name` in `from` to `new` in `to`. Returns an error if `new` exists.
pub fn rename_new(from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
    match from.rename_new(name, to, new) {
        Err(error) if cannot_rename_new(&error) => rename_by_link(from, name, to, new),
        renamed => renamed,
    }
}

/// Does the same with a hard link, which never replaces a file, where the system has no such rename.
fn rename_by_link(from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
    let Err(error) = from.link(name, to, new) else { return remove_linked(from, name, to, new) };
    match Errno::from_io_error(&error) {
        // The file system has neither links nor renames that fail for an existing name, so the only protection is a
        // check.
        Some(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) if !to.may_exist(new) => {
            from.rename(name, to, new)
        }
        Some(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Err(Errno::EXIST.into()),
        _ => Err(error),
    }
}

/// Removes the name `name` of a file that also has the name `new`. Another program may have replaced the file called
/// `name`, so that name is changed and compared before it is removed. A kill in between leaves a displaced file.
fn remove_linked(from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
    // No other program uses our names, so the file cannot be another one.
    if name.starts_with(OWN) {
        return from.remove(name);
    }
    let old = displaced_as(name);
    match from.rename(name, from, &old) {
        Ok(()) if is_same(from, &old, to, new) => from.remove(&old),
        // If another program took the name again, the file stays displaced.
        Ok(()) => from.link(&old, from, name).map_or(Ok(()), |()| from.remove(&old)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // The name for displacing would be too long, so the file is removed without a comparison.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NAMETOOLONG) => from.remove(name),
        Err(error) => Err(error),
    }
}

/// Returns whether two names are those of one file.
fn is_same(dir: &Dir, one: &str, there: &Dir, other: &str) -> bool {
    let look = |dir: &Dir, name| dir.look(name).ok().map(|found| found.state);
    look(there, other).is_some_and(|other| FileState::are_of([look(dir, one), look(dir, one)], &other))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests look at files")]

    use std::fs;

    use super::*;

    #[test]
    fn an_existing_file_is_never_replaced() {
        type Rename = fn(&Dir, &str, &Dir, &str) -> io::Result<()>;
        let usual: Rename = rename_new;
        for rename in [usual, rename_by_link] {
            let base = tempfile::tempdir().unwrap();
            let path = |name: &str| base.path().join(name);
            fs::write(path("a"), "a").unwrap();
            fs::write(path("b"), "b").unwrap();
            let dir = &Dir::open_quietly(base.path()).unwrap();
            let error = rename(dir, "a", dir, "b").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(
                (fs::read(path("a")).unwrap(), fs::read(path("b")).unwrap()),
                (b"a".into(), b"b".into())
            );
            rename(dir, "a", dir, "c").unwrap();
            assert!(!path("a").exists() && fs::read(path("c")).unwrap() == b"a");
            for name in [".opkeep-old-1-1-a.old", "d"] {
                rename(dir, "c", dir, name).unwrap();
                rename(dir, name, dir, "c").unwrap();
            }
            let error = rename(dir, "b", dir, "c").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(rename(dir, "x", dir, "d").unwrap_err().kind(), io::ErrorKind::NotFound);
            let mut names: Vec<_> = dir.entries().unwrap();
            names.sort_by(|one, other| one.name.cmp(&other.name));
            assert_eq!(names.iter().map(|name| &name.name).collect::<Vec<_>>(), ["b", "c"]);
        }
    }

    /// Between the link and the removal, another program gave a file of its own the old name.
    #[test]
    fn a_file_that_takes_the_old_name_is_not_removed() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        let long = "a".repeat(250);
        for (name, is_taken) in [("a", false), ("a", true), (&*long, false), (".opkeep-tmp-1-1", false)] {
            fs::write(path("b"), "ours").unwrap();
            match is_taken {
                true => fs::write(path(name), "theirs").unwrap(),
                false => fs::hard_link(path("b"), path(name)).unwrap(),
            }
            let dir = Dir::open_quietly(base.path()).unwrap();
            remove_linked(&dir, name, &dir, "b").unwrap();
            let names = dir.list().unwrap().len();
            assert_eq!((path(name).exists(), names), (is_taken, if is_taken { 2 } else { 1 }), "{name}");
            assert!(!is_taken || fs::read(path(name)).unwrap() == b"theirs");
            assert_eq!(fs::read(path("b")).unwrap(), b"ours");
            let _ = fs::remove_file(path(name));
            // It is no error if another program has removed the name.
            remove_linked(&dir, "a", &dir, "b").unwrap();
        }
    }
}

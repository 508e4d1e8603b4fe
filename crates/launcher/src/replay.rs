//! Writes the outputs of a stored result.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use opkeep_fs::{Dir, Fs, RootedFs};
use rustix::process::geteuid;

use crate::result::{Output, OutputContent, StoredResult, decode_text};
use crate::roots::Roots;
use crate::task::{Task, real_name};

/// A stored result that can be used here.
pub(crate) struct Replay<'a> {
    outputs: Vec<(PathBuf, &'a Output)>,
    /// The texts of standard output and standard error.
    pub(crate) texts: [Vec<u8>; 2],
}

impl<'a> Replay<'a> {
    /// The result, if it would write expected outputs alone, into directories that exist or that it makes. A result may come from
    /// another host.
    pub(crate) fn of(result: &'a StoredResult, task: &Task<'_>, roots: &Roots) -> Option<Self> {
        let [out, err] = &result.texts;
        let texts = [decode_text(roots, out)?, decode_text(roots, err)?];
        let located = |output: &'a Output| Some((roots.locate(&output.name)?, output));
        let outputs: Vec<_> = result.outputs.iter().map(located).collect::<Option<_>>()?;
        let replay = Self { outputs, texts };
        replay.is_usable(task).then_some(replay)
    }

    fn is_usable(&self, task: &Task<'_>) -> bool {
        let files = || self.outputs.iter().filter(|(_, output)| output.content != OutputContent::Directory);
        let dirs = || self.outputs.iter().filter(|(_, output)| output.content == OutputContent::Directory);
        let will_be_dir = |path: &Path| is_real_dir(path) || dirs().any(|(dir, _)| dir == path);
        let mut names = BTreeSet::new();
        // Each directory is made once, after the one above it.
        let are_in_order = self.outputs.iter().all(|(path, output)| {
            let is_below = |above: &Path| is_real_dir(above) || names.contains(above);
            let has_parent =
                output.content != OutputContent::Directory || path.parent().is_some_and(is_below);
            has_parent && names.insert(path.as_path())
        });
        let is_above_file = |dir: &Path| files().any(|(path, _)| path != dir && path.starts_with(dir));
        are_in_order
            && dirs().all(|(dir, _)| {
                // The command makes the directory: one that is there already is another state.
                is_missing(dir) && is_above_file(dir) && dir.parent().is_some_and(will_be_dir)
            })
            && files().all(|(path, _)| {
                task.expects(path)
                    && real_name(path) == *path
                    && path.parent().is_some_and(will_be_dir)
                    && is_free(path)
            })
    }

    /// Makes the directories, and replaces each output by a file with its bytes and its mode. No link is followed on the way, whatever another
    /// process has laid there since the result was found to be usable.
    ///
    /// # Errors
    /// An output cannot be written. All is as before then, since the command runs: it must not find a directory that it makes itself. Only an old
    /// output may be a new one by now, if it could be replaced and a later one could not.
    pub(crate) fn write(&self) -> io::Result<()> {
        let mut made = Vec::new();
        let written = self.write_noting(&mut made);
        if written.is_err() {
            for Made { dir, name, is_dir } in made.into_iter().rev() {
                // What another process has put there stays.
                let _ = if is_dir { dir.remove_dir(name) } else { dir.remove(name) };
            }
        }
        written
    }

    fn write_noting<'r>(&'r self, made: &mut Vec<Made<'r>>) -> io::Result<()> {
        let mut fs = RootedFs::default();
        fs.enter(Path::new("/"))?;
        let mut dirs: BTreeMap<&Path, Dir> = BTreeMap::new();
        for (path, output) in &self.outputs {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
            if !dirs.contains_key(parent) {
                dirs.insert(parent, fs.open_dir(parent)?);
            }
            if output.content == OutputContent::Directory {
                let dir = fs.open_dir(parent)?;
                dir.create_dir(name, 0o700)?;
                made.push(Made { dir, name, is_dir: true });
            }
        }
        let mut prepared = Vec::new();
        for (path, output) in &self.outputs {
            let OutputContent::File(bytes) = &output.content else { continue };
            let Some((dir, name)) = path.parent().and_then(|dir| dirs.get(dir)).zip(path.file_name()) else {
                continue;
            };
            prepared.push((dir, name, dir.prepare(name, &[bytes], output.mode)?));
        }
        for (dir, name, file) in prepared {
            let is_new = !dir.may_exist(name);
            let dir = dir.try_clone()?;
            file.publish()?;
            if is_new {
                made.push(Made { dir, name, is_dir: false });
            }
        }
        // A directory that cannot be searched or written hides what is below it: all are opened before.
        let dirs = self.outputs.iter().filter(|(_, output)| output.content == OutputContent::Directory);
        let opened = |(path, output): &'r (PathBuf, &Output)| Ok((fs.open_dir(path)?, output.mode));
        let opened = dirs.map(opened).collect::<io::Result<Vec<_>>>()?;
        let set = opened.iter().rev().try_for_each(|(dir, mode)| fs.set_dir_mode(dir, *mode));
        if set.is_err() {
            opened.iter().for_each(|(dir, _)| drop(fs.set_dir_mode(dir, 0o700)));
        }
        set
    }
}

/// A directory or a file that was missing before.
struct Made<'r> {
    dir: Dir,
    name: &'r OsStr,
    is_dir: bool,
}

/// Whether a path leads through no link to a directory.
fn is_real_dir(path: &Path) -> bool {
    let fs = Fs::new();
    fs.is_dir(path) && fs.real_path(path).is_ok_and(|real| real == path)
}

fn is_missing(path: &Path) -> bool {
    Fs::new().symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Whether a file can be written without a loss: nothing is there, or an old output. A link leads to another file, and a file with a second name is
/// another file as well: what the command does with these is not known.
fn is_free(path: &Path) -> bool {
    match Fs::new().symlink_metadata(path) {
        Ok(found) => found.is_file() && found.nlink() == 1 && found.uid() == geteuid().as_raw(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use std::fs;

    use super::*;
    use crate::roots::PathName;
    use crate::task::{Invocation, ToolFacts};

    #[test]
    fn a_result_that_cannot_be_written_leaves_nothing() {
        let tree = tempfile::tempdir().unwrap();
        let at = Fs::new().resolved(tree.path());
        fs::write(at.join("old"), "of before").unwrap();
        let output = |rest: &str, content: &OutputContent| Output {
            name: PathName { root: String::new(), rest: at.join(rest) },
            mode: 0o555,
            content: content.clone(),
        };
        let (dir, file) = (OutputContent::Directory, OutputContent::File(b"x".to_vec()));
        let outputs = |last: &str| {
            vec![
                output("new", &dir),
                output("new/sub", &dir),
                output("new/sub/k", &file),
                output("old", &file),
                output(last, &file),
            ]
        };
        let write = |outputs: &[Output]| {
            let outputs = outputs.iter().map(|output| (output.name.rest.clone(), output)).collect();
            Replay { outputs, texts: [Vec::new(), Vec::new()] }.write()
        };
        let names = || fs::read_dir(&at).unwrap().count();
        // A missing directory, and a directory in the place of a file: the first is found before a file is replaced.
        write(&outputs("absent/k")).unwrap_err();
        assert_eq!((names(), fs::read_to_string(at.join("old")).unwrap().as_str()), (1, "of before"));
        fs::create_dir(at.join("taken")).unwrap();
        write(&outputs("taken")).unwrap_err();
        assert_eq!(names(), 2);
        fs::remove_dir(at.join("taken")).unwrap();
        write(&outputs("taken")).unwrap();
        assert_eq!(fs::read_to_string(at.join("new/sub/k")).unwrap(), "x");
        for dir in ["new", "new/sub"] {
            assert_eq!(fs::metadata(at.join(dir)).unwrap().mode() & 0o7777, 0o555);
            Fs::new().set_mode(&at.join(dir), 0o755).unwrap();
        }
    }

    /// Results of another host that would write where no output is expected.
    #[test]
    fn a_hostile_result_is_not_used() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir(tree.path().join("out")).unwrap();
        fs::create_dir(tree.path().join("out/dir")).unwrap();
        std::os::unix::fs::symlink("/", tree.path().join("out/link")).unwrap();
        let roots = Roots::new([("build".to_owned(), tree.path().to_owned())]).unwrap();
        let out = tree.path().join("out");
        let task = Task {
            tool: "test",
            run: Invocation::default(),
            key_args: Vec::new(),
            inputs: Vec::new(),
            work_dir: Path::new("/absent"),
            outputs: &|path| {
                path.starts_with(&out) && path.extension().is_some_and(|extension| extension == "o")
            },
            ignored: &|_| false,
            check: &|_| Ok(()),
            facts: ToolFacts::default(),
            exclusive: Vec::new(),
            target: "host".to_owned(),
            name: String::new(),
        };
        let file = || OutputContent::File(b"x".to_vec());
        let is_used = |outputs: &[(&str, &str, OutputContent)]| {
            let output = |(root, rest, content): &(&str, &str, OutputContent)| Output {
                name: PathName { root: (*root).to_owned(), rest: rest.into() },
                mode: 0o644,
                content: content.clone(),
            };
            let result = StoredResult {
                outputs: outputs.iter().map(output).collect(),
                texts: [Vec::new(), Vec::new()],
            };
            Replay::of(&result, &task, &roots).is_some()
        };
        let new = OutputContent::Directory;
        assert!(is_used(&[("build", "out/k.o", file())]) && is_used(&[]));
        assert!(is_used(&[("build", "out/new", new.clone()), ("build", "out/new/k.o", file())]));
        for (root, rest) in [
            ("build", "elsewhere/k.o"),
            ("build", "out/../k.o"),
            ("build", "out/../../k.o"),
            ("build", "out/dir/../../k.o"),
            ("build", "out/k.txt"),
            ("build", "/etc/k.o"),
            ("", "/etc/k.o"),
            ("", "k.o"),
            ("home", "k.o"),
            ("build", "out/absent/k.o"),
            ("build", "out/dir"),
            ("build", ""),
        ] {
            assert!(!is_used(&[("build", "out/k.o", file()), (root, rest, file())]), "{root} {rest}");
        }
        // Directories without a file, or not above one.
        for rest in ["out/new", "new", "out/../new"] {
            assert!(!is_used(&[("build", rest, new.clone()), ("build", "out/k.o", file())]), "{rest}");
        }
        assert!(!is_used(&[("build", "out/k.o", new.clone()), ("build", "out/k.o", file())]));
        // A name twice, and a directory before the one above it.
        let k = ("build", "out/new/sub/k.o", file());
        let (above, below) = (("build", "out/new", new.clone()), ("build", "out/new/sub", new.clone()));
        assert!(is_used(&[above.clone(), below.clone(), k.clone()]));
        assert!(!is_used(&[below.clone(), above.clone(), k.clone()]));
        assert!(!is_used(&[above.clone(), above.clone(), below, k]));
        assert!(!is_used(&[("build", "out/k.o", file()), ("build", "out/k.o", file())]));
        assert!(!is_used(&[("build", "out/k.o", file()), ("build", "out//k.o", file())]));
    }
}

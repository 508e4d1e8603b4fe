//! Writes the outputs of a stored result.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use opkeep_fs::{Fs, RootedFs};
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
        let is_above_file = |dir: &Path| files().any(|(path, _)| path != dir && path.starts_with(dir));
        dirs().all(|(dir, _)| {
            // The command makes the directory: one that is there already is another state.
            is_missing(dir) && is_above_file(dir) && dir.parent().is_some_and(will_be_dir)
        }) && files().all(|(path, _)| {
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
    /// An output cannot be written; those before it are.
    pub(crate) fn write(&self) -> io::Result<()> {
        let mut fs = RootedFs::default();
        fs.enter(Path::new("/"))?;
        for (path, output) in &self.outputs {
            let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { continue };
            let dir = fs.open_dir(dir)?;
            match &output.content {
                OutputContent::Directory => {
                    dir.create_dir(name, output.mode)?;
                    fs.set_dir_mode(&dir.below(name)?, output.mode)?;
                }
                OutputContent::File(bytes) => dir.replace_with_mode(name, &[bytes], output.mode)?,
            }
        }
        Ok(())
    }
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
            own_dirs: Vec::new(),
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
    }
}

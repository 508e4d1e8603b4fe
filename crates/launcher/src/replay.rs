//! Writes the outputs of a stored result.

use std::io;
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;

use crate::result::{Output, OutputContent, StoredResult, decode_text};
use crate::roots::Roots;
use crate::task::{Task, without_parents};

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
        let fs = Fs::new();
        let files = || self.outputs.iter().filter(|(_, output)| output.content != OutputContent::Directory);
        let dirs = || self.outputs.iter().filter(|(_, output)| output.content == OutputContent::Directory);
        let will_be_dir =
            |path: &Path| fs.is_dir(path) || dirs().any(|(dir, _)| dir == path && !fs.exists(path));
        let is_above_file = |dir: &Path| files().any(|(path, _)| path != dir && path.starts_with(dir));
        dirs().all(|(dir, _)| is_above_file(dir) && dir.parent().is_some_and(will_be_dir))
            && files().all(|(path, _)| {
                task.expects(path)
                    && without_parents(path) == *path
                    && path.parent().is_some_and(will_be_dir)
                    && fs.metadata(path).map_or(true, |found| found.is_file())
            })
    }

    /// Makes the directories, and replaces each output by a file with its bytes and its mode.
    ///
    /// # Errors
    /// An output cannot be written; those before it are.
    pub(crate) fn write(&self) -> io::Result<()> {
        for (path, output) in &self.outputs {
            match &output.content {
                OutputContent::Directory => make_dir(path, output.mode)?,
                OutputContent::File(bytes) => write_file(path, bytes, output.mode)?,
            }
        }
        Ok(())
    }
}

fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    match Fs::new().create_dir(path, mode) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.and_then(|()| Fs::new().set_mode(path, mode)),
    }
}

fn write_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let fs = Fs::new();
    // The command writes through a link at the output's path.
    let is_link = fs.symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let path = if is_link { fs.real_path(path)? } else { path.to_owned() };
    fs.replace_with_mode(&path, &[bytes], mode)
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

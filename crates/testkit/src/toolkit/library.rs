//! A Python's standard library as bytecode.
#![expect(clippy::disallowed_methods, reason = "this is a part of the toolkit's I/O")]

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

/// Directories that no program of the toolkit imports from, or that are not of the library.
const LEFT_OUT: [&str; 12] = [
    "__pycache__",
    "dist-packages",
    "distutils",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
];

/// The extension modules, which stay where they are.
const EXTENSIONS: &str = "lib-dynload";

/// Fills the directory `to` with the modules of the library at `from`: bytecode in the place of a source, where the machine has
/// it, and links to all other files. `tag` is in the names of bytecode.
pub(super) fn copy(from: &Path, to: &Path, tag: &str) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let text = name.to_string_lossy();
        if text == EXTENSIONS || !path.is_dir() {
            match text.strip_suffix(".py").and_then(|module| bytecode(&path, module, tag)) {
                Some(bytecode) => fs::write(to.join(format!("{text}c")), bytecode)?,
                None => symlink(&path, to.join(&name))?,
            }
        } else if !LEFT_OUT.contains(&&*text) && !text.starts_with("config-") {
            copy(&path, &to.join(&name), tag)?;
        }
    }
    Ok(())
}

/// The bytecode of a source, if it is there and of this source.
fn bytecode(source: &Path, module: &str, tag: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(source.with_file_name("__pycache__").join(format!("{module}.{tag}.pyc"))).ok()?;
    is_of(&bytes, &fs::metadata(source).ok()?).then_some(bytes)
}

/// Whether bytecode has the time and the size of this source: <https://peps.python.org/pep-0552/>.
fn is_of(bytecode: &[u8], source: &Metadata) -> bool {
    let word =
        |at: usize| bytecode.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let [time, size] = [source.mtime() as u32, source.len() as u32];
    [word(4), word(8), word(12)] == [Some(0), Some(time), Some(size)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with a source of three bytes.
    fn source(dir: &Path, module: &str) -> u32 {
        let path = dir.join(format!("{module}.py"));
        fs::write(&path, "x=1").unwrap();
        fs::metadata(path).unwrap().mtime() as u32
    }

    fn bytecode_of(dir: &Path, module: &str, words: [u32; 3]) {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        let bytes: Vec<u8> = b"magi".iter().copied().chain(words).chain(*b"code").collect();
        fs::create_dir_all(dir.join("__pycache__")).unwrap();
        fs::write(dir.join(format!("__pycache__/{module}.p-1.pyc")), bytes).unwrap();
    }

    #[test]
    fn bytecode_takes_the_place_of_its_source_only() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let (package, tests) = (from.join("package"), from.join("test"));
        [&package, &tests].iter().for_each(|dir| fs::create_dir_all(dir).unwrap());
        for (dir, module) in [(&from, "good"), (&package, "deep"), (&tests, "never")] {
            let time = source(dir, module);
            bytecode_of(dir, module, [0, time, 3]);
        }
        // Of another time, of another size, checked by its hash, cut off, of no source, missing.
        let time = source(&from, "older");
        bytecode_of(&from, "older", [0, time - 1, 3]);
        let time = source(&from, "longer");
        bytecode_of(&from, "longer", [0, time, 4]);
        let time = source(&from, "hashed");
        bytecode_of(&from, "hashed", [1, time, 3]);
        source(&from, "short");
        fs::write(from.join("__pycache__/short.p-1.pyc"), "magi").unwrap();
        bytecode_of(&from, "gone", [0, time, 3]);
        source(&from, "bare");
        copy(&from, &to, "p-1").unwrap();
        let names = |dir: &Path| {
            let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        };
        let sources = ["bare.py", "good.pyc", "hashed.py", "longer.py", "older.py", "package", "short.py"];
        assert_eq!(
            (names(&to), names(&to.join("package"))),
            (sources.map(str::to_owned).into(), vec!["deep.pyc".to_owned()])
        );
        assert!(fs::read(to.join("good.pyc")).unwrap().ends_with(b"code"));
        assert_eq!(fs::read_link(to.join("older.py")).unwrap(), from.join("older.py"));
    }
}

//! A run with a launcher after a change, compared with what the command itself does in the same place.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use opkeep_embed::CacheMode;
use opkeep_launcher::How;

use super::{Bench, Setup, Texts};

/// All below the directory of a bench, except its store: kinds, modes, contents, and where links lead.
type World = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// Lays files, runs a script with a launcher, changes something, and runs it again. What is there then, and the texts, must be those of a world in
/// which the second run is that of the script itself. Returns where the two results are from.
pub(crate) fn after(
    setup: &Setup,
    script: &str,
    lay: &dyn Fn(&Bench),
    change: &dyn Fn(&Bench),
) -> (How, How) {
    let bench = Bench::new();
    lay(&bench);
    let first = bench.raw(setup, script);
    change(&bench);
    let second = bench.raw(setup, script);
    let found = world(&bench);
    // The same files at the same paths.
    for entry in fs::read_dir(bench.dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
    fs::create_dir_all(bench.path("tree/out")).unwrap();
    lay(&bench);
    let without = Setup { mode: CacheMode::Disable, ..setup.clone() };
    assert_eq!(bench.raw(&without, script).code, first.code, "{script}");
    change(&bench);
    let run = bench.invocation(setup, script);
    let temporary = tempfile::tempdir().unwrap();
    let ended = Command::new(&run.program)
        .args(&run.args)
        .current_dir(&run.dir)
        .env_clear()
        .envs(run.env)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let texts = Texts { out: ended.stdout, err: ended.stderr };
    assert_eq!((second.code, second.texts), (ended.status.code(), texts), "{script}: {:?}", second.how);
    assert_eq!(found, world(&bench), "{script}: {:?}", second.how);
    (first.how, second.how)
}

fn world(bench: &Bench) -> World {
    let (top, mut found, mut dirs) = (bench.dir.path(), World::new(), vec![bench.dir.path().to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top).unwrap().to_owned();
            if name == Path::new("store") {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).unwrap();
            let bytes = match () {
                () if metadata.is_symlink() => {
                    OsString::from(fs::read_link(&path).unwrap()).into_encoded_bytes()
                }
                () if metadata.is_file() => fs::read(&path).unwrap(),
                () => Vec::new(),
            };
            if metadata.is_dir() {
                dirs.push(path);
            }
            found.insert(name, (metadata.mode(), bytes));
        }
    }
    found
}

/// Replaces a file or a directory by a link.
pub(crate) fn link_at(path: &Path, target: &str) {
    match path.is_dir() {
        true => fs::remove_dir_all(path).unwrap(),
        false => fs::remove_file(path).unwrap(),
    }
    symlink(target, path).unwrap();
}

//! What is in the place of an object and is no file of this program.

#![expect(clippy::disallowed_methods, reason = "the tests change files as other programs do")]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{
    ClaimAnswer, ClaimTerms, ListedObject, PutAnswer, RemoteEngine, RemoteError, RemoteObject,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::engine;
use super::faults::{get, name, path_of};
use crate::contract::{self, lease, limits, token};

/// A thing at a path, in a directory that it may use.
type Place = fn(&Path, &Path);

type Run = fn(&Case);

const THINGS: [(&str, Place); 9] = [
    ("pipe", |path, _| pipe(path)),
    ("link", |path, directory| symlink(directory.join("secret"), path).unwrap()),
    ("link to nothing", |path, directory| symlink(directory.join("nothing"), path).unwrap()),
    ("link to itself", |path, _| symlink(path, path).unwrap()),
    ("link to a pipe", |path, directory| {
        let pipe_path = directory.join("pipe").with_extension(path.file_name().unwrap());
        pipe(&pipe_path);
        symlink(pipe_path, path).unwrap();
    }),
    ("socket", |path, _| drop(UnixListener::bind(path).unwrap())),
    ("empty directory", |path, _| fs::create_dir(path).unwrap()),
    (FULL_DIRECTORY, |path, _| {
        fs::create_dir(path).unwrap();
        fs::write(path.join("file"), "another program's").unwrap();
    }),
    (LARGE_FILE, |path, _| File::create(path).unwrap().set_len(3 << 30).unwrap()),
];

const FULL_DIRECTORY: &str = "directory with a file";
/// Larger than any object.
const LARGE_FILE: &str = "large file";

pub(super) fn trials() -> Vec<Trial> {
    let trial = |(thing, place): &(&str, Place), (what, run): (&str, Run)| {
        let (thing, place): (&'static str, _) =
            (THINGS.iter().find(|(name, _)| name == thing).unwrap().0, *place);
        Trial::test(format!("file/in_place/{what} of an object: {thing}"), move || {
            let directory = tempfile::tempdir().unwrap();
            run(&Case::new(directory.path(), thing, place));
            Ok::<(), Failed>(())
        })
    };
    let runs: [(&str, Run); 3] = [
        ("a reader refuses, and a writer replaces, what is in the place", healed),
        ("remove deletes what is in the place", removed),
        ("a lease is held, and a counter begins, in the place", leases),
    ];
    THINGS.iter().flat_map(|thing| runs.map(|run| trial(thing, run))).collect()
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// A directory with an object, a thing in the place of another, and a third object.
struct Case {
    directory: PathBuf,
    thing: &'static str,
    place: Place,
    engine: std::sync::Arc<dyn RemoteEngine>,
}

impl Case {
    fn new(directory: &Path, thing: &'static str, place: Place) -> Self {
        fs::write(directory.join("secret"), "secret").unwrap();
        Self { directory: directory.to_owned(), thing, place, engine: engine(directory) }
    }

    /// Puts the thing in the place of an object, and returns the path.
    fn occupy(&self, object: &str) -> PathBuf {
        let object = name(object);
        self.engine.replace(&[RemoteObject::new(&object, b"wrong")], &limits()).unwrap();
        let path = path_of(&self.directory, object.as_str().rsplit('/').next().unwrap());
        fs::remove_file(&path).unwrap();
        (self.place)(&path, &self.directory);
        path
    }

    fn put(&self, names: &[&str]) {
        for object in names {
            self.engine.replace(&[RemoteObject::new(&name(object), object.as_bytes())], &limits()).unwrap();
        }
    }

    fn listed(&self) -> Vec<(String, bool)> {
        let listed = self.engine.list("", "", &limits()).unwrap().objects.into_iter();
        let mut listed: Vec<_> =
            listed.map(|ListedObject { name, is_object, .. }| (name.to_string(), is_object)).collect();
        listed.sort();
        listed
    }

    /// Fails if anything of another program is gone.
    fn check_others(&self) {
        assert_eq!(fs::read(self.directory.join("secret")).unwrap(), b"secret");
        if self.thing == FULL_DIRECTORY {
            assert_eq!(fs::read(path_of(&self.directory, "file")).unwrap(), b"another program's");
        }
    }
}

fn healed(case: &Case) {
    case.put(&["a/1", "a/3"]);
    let path = case.occupy("a/2");
    let names = ["a/1", "a/2", "a/3"].map(name);
    let found = contract::get(&*case.engine, &names).unwrap();
    let content = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(found, [content("a/1"), content(""), content("a/3")]);
    let object = RemoteObject::new(&names[1], b"two");
    assert_eq!(case.engine.put_if_absent(&[object], &limits()), Ok(vec![PutAnswer::Existed]));
    assert_eq!(get(&*case.engine, &names[1]), Ok(content("")));
    case.engine.replace(&[RemoteObject::new(&names[0], b"one"), object], &limits()).unwrap();
    assert_eq!(
        contract::get(&*case.engine, &names).unwrap(),
        [content("one"), content("two"), content("a/3")]
    );
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    case.check_others();
}

fn removed(case: &Case) {
    case.put(&["a/1", "a/3"]);
    let path = case.occupy("a/2");
    let is_object = case.thing == LARGE_FILE;
    let of = |name: &str, is_object| (name.to_owned(), is_object);
    assert_eq!(case.listed(), [of("a/1", true), of("a/2", is_object), of("a/3", true)]);
    let removed = case.engine.remove(&["a/1", "a/2", "a/3"].map(name), &limits());
    if case.thing == FULL_DIRECTORY {
        assert!(
            matches!(&removed, Err(RemoteError::Refused { reason }) if reason.contains("`a/2`")),
            "{removed:?}"
        );
        assert_eq!(case.listed(), [of("a/2", false)]);
        assert!(path.join("file").exists());
    } else {
        assert_eq!((removed, case.listed()), (Ok(()), vec![]));
        assert!(fs::symlink_metadata(&path).is_err());
    }
    case.check_others();
}

fn leases(case: &Case) {
    case.occupy("l/lease");
    let (names, terms) = ([name("l/lease")], ClaimTerms::new(1, Duration::from_secs(60)));
    let engine = &case.engine;
    assert_eq!(engine.claim(&names, &lease(1, 0), terms, &limits()), Ok(vec![ClaimAnswer::Held(None)]));
    assert_eq!(engine.renew(&names, &lease(1, 1), terms.keep_for, &limits()), Ok(vec![false]));
    assert_eq!(engine.release(&names, &token(1), &limits()), Ok(()));
    if case.thing != LARGE_FILE {
        let path = case.occupy("p/counter");
        let counter = name("p/counter");
        assert_eq!(engine.progress(&counter, &limits()), Ok(Some(0)));
        engine.advance(&counter, 3, terms.keep_for, &limits()).unwrap();
        assert_eq!(engine.progress(&counter, &limits()), Ok(Some(3)));
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }
    case.check_others();
}

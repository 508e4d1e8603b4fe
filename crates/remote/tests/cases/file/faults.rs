//! What other programs do in the directory, and what the file system refuses.

#![expect(clippy::disallowed_methods, reason = "the tests change files as other programs do")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{
    ClaimAnswer, ClaimTerms, IdleTimeout, ObjectName, RemoteEngine, RemoteError, RemoteObject,
};

use super::engine;
use crate::contract::{content, lease, limits};

type Case = (&'static str, fn(&Path));

const CASES: [Case; 8] = [
    ("a missing directory is not created", missing_directory),
    ("a directory that is a link leads nowhere", linked_directory),
    ("a group that shares the directory may write all of it", shared_by_a_group),
    ("temporary files of killed processes are removed a day later", leftovers),
    ("a lease whose content is nothing is held", nothing_in_a_lease),
    ("an object that is written all the time is read as a whole", written_all_the_time),
    ("a copy in another directory is not listed", misplaced),
    ("each object that is written is progress", progress),
];

pub(super) fn trials() -> Vec<Trial> {
    let trial = |(name, run): &Case| {
        let run = *run;
        Trial::test(format!("file/faults/{name}"), move || {
            let directory = tempfile::tempdir().unwrap();
            run(directory.path());
            Ok::<(), Failed>(())
        })
    };
    CASES.iter().map(trial).collect()
}

pub(super) fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

fn put(engine: &dyn RemoteEngine, name: &ObjectName, content: &[u8]) {
    engine.put_if_absent(&[RemoteObject::new(name, content)], &limits()).unwrap();
}

pub(super) fn get(engine: &dyn RemoteEngine, name: &ObjectName) -> Result<Option<Vec<u8>>, RemoteError> {
    let mut found = None;
    engine.get_many(std::slice::from_ref(name), &limits(), &mut |_, content| found = Some(content))?;
    Ok(found)
}

/// Returns the path of an object, which is the only one with this last segment.
pub(super) fn path_of(directory: &Path, last: &str) -> PathBuf {
    let found = files(directory).into_iter().find(|path| path.ends_with(last));
    found.unwrap()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

fn missing_directory(directory: &Path) {
    let engine = engine(&directory.join("not mounted"));
    let object = name("a/b");
    let errors = [
        get(&*engine, &object).map(drop),
        engine.put_if_absent(&[RemoteObject::new(&object, b"x")], &limits()).map(drop),
        engine.capabilities(&limits()).map(drop),
    ];
    for error in errors {
        assert!(
            matches!(&error, Err(RemoteError::Unreachable { reason }) if reason.contains("is it mounted?")),
            "{error:?}"
        );
    }
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
}

fn linked_directory(directory: &Path) {
    let (engine, object) = (engine(directory), name("a/object"));
    put(&*engine, &object, b"one");
    fs::rename(directory.join("a"), directory.join("moved")).unwrap();
    symlink(directory.join("moved"), directory.join("a")).unwrap();
    assert!(get(&*engine, &object).is_err());
    let put = engine.put_if_absent(&[RemoteObject::new(&object, b"two")], &limits());
    assert!(put.is_err(), "{put:?}");
    assert_eq!(fs::read(path_of(&directory.join("moved"), "object")).unwrap(), b"one");
}

fn shared_by_a_group(directory: &Path) {
    fs::set_permissions(directory, Permissions::from_mode(0o2770)).unwrap();
    let engine = engine(directory);
    put(&*engine, &name("a/b/object"), b"one");
    let mut path = path_of(directory, "object");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o660);
    while path.pop() && path != directory {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o2770, "{}", path.display());
    }
}

fn leftovers(directory: &Path) {
    put(&*engine(directory), &name("a/one"), b"one");
    let temporary = directory.join("+tmp");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    let other = |hours: u64| format!("0123456789abcdef-1-{hours}");
    let age = |name: String, hours: u64| {
        let path = temporary.join(name);
        fs::write(&path, "x").unwrap();
        let time = SystemTime::now() - Duration::from_secs(hours * 3600);
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    [1, 23, 25].into_iter().for_each(|hours| age(other(hours), hours));
    // Files of other programs.
    let foreign = ["0123456789abcdef-1", "0123456789abcdef-1-x", "notes.txt"];
    foreign.into_iter().for_each(|name| age(name.to_owned(), 1000));
    put(&*engine(directory), &name("a/two"), b"two");
    let mut left: Vec<_> =
        fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    let own = [other(1), other(23)];
    let mut expected: Vec<_> = own.iter().map(String::as_str).chain(foreign).collect();
    expected.sort_unstable();
    assert_eq!(left, expected);
}

fn misplaced(directory: &Path) {
    let engine = engine(directory);
    put(&*engine, &name("v1/a/object"), b"an object");
    let place = path_of(directory, "object");
    for digits in ["00", "ff", "zz"] {
        let other = directory.join("v1/a").join(format!("+{digits}"));
        fs::create_dir_all(&other).unwrap();
        if !place.starts_with(&other) {
            fs::write(other.join("object"), "a copy").unwrap();
        }
    }
    let listed = engine.list("v1/", "", &limits()).unwrap();
    let listed: Vec<_> = listed.objects.iter().map(|object| (object.name.as_str(), object.bytes)).collect();
    assert_eq!(listed, [("v1/a/object", 9)]);
}

fn nothing_in_a_lease(directory: &Path) {
    let (engine, lease_name) = (engine(directory), name("l/lease"));
    let terms = ClaimTerms::new(1, Duration::from_secs(60));
    let claim = || engine.claim(std::slice::from_ref(&lease_name), &lease(2, 0), terms, &limits()).unwrap();
    assert_eq!(claim(), [ClaimAnswer::Granted]);
    for content in [&b""[..], &[b'x'; 4096], b"no lease"] {
        fs::write(path_of(directory, "lease"), content).unwrap();
        let held = engine.claim(std::slice::from_ref(&lease_name), &lease(1, 0), terms, &limits());
        assert_eq!(held.as_deref(), Ok(&[ClaimAnswer::Held(None)][..]));
        let renewed =
            engine.renew(std::slice::from_ref(&lease_name), &lease(2, 1), terms.keep_for, &limits());
        assert_eq!(renewed, Ok(vec![false]));
    }
}

/// Another process replaces an object, and a reader gets one content or the other.
fn written_all_the_time(directory: &Path) {
    let (engine, object) = (engine(directory), name("a/object"));
    let contents = [content(100_000, 1), content(50_000, 2)];
    put(&*engine, &object, &contents[0]);
    for (number, content) in contents.iter().enumerate() {
        fs::write(directory.join(format!("{number}")), content).unwrap();
    }
    let script = "while :; do for n in 0 1; do cp $n new && mv new \"$0\"; done; done";
    let mut writer = Command::new("sh");
    let path = path_of(directory, "object");
    let mut writer =
        writer.arg("-c").arg(script).arg(path).current_dir(directory).stdin(Stdio::null()).spawn().unwrap();
    let mut seen = [0; 2];
    while seen.contains(&0) {
        let found = get(&*engine, &object).unwrap().unwrap();
        let which = contents.iter().position(|content| *content == found);
        seen[which.unwrap()] += 1;
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
}

/// A call takes several times as long as the directory may be idle.
fn progress(directory: &Path) {
    let (engine, idle_time) = (engine(directory), Duration::from_millis(500));
    let mut count = 64;
    loop {
        let names: Vec<_> = (0..count).map(|number| name(&format!("of-{count}/{number}"))).collect();
        let objects: Vec<_> = names.iter().map(|name| RemoteObject::new(name, b"content")).collect();
        let (idle, began) = (IdleTimeout::new(idle_time), Instant::now());
        let context = limits().with_idle_timeout(&idle);
        let stored = engine.put_if_absent(&objects, &context).unwrap();
        assert_eq!(stored.len(), count);
        if began.elapsed() > idle_time * 2 {
            return;
        }
        count *= 4;
    }
}

//! A cached kernel is code that will run: only files of trusted users are used, and no link leads out of the store.

#![expect(clippy::disallowed_methods, reason = "these tests change owners and modes, and run themselves")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::common::{
    Children, Created, TARGET, child, fresh, hit, inode, is_root, key, lock, miss, names, open, snapshot,
    trial, until, within,
};
use libtest_mimic::Trial;
use opkeep_store::{
    Access, GcOptions, LockOutcome, Miss, Overwrite, PutOutcome, RepairOptions, Store, StoreConfig,
    StoreError, StoreProblem, VerifyOptions,
};
use tempfile::TempDir;

const OTHER: u32 = 54_321;
const GROUP: u32 = 54_322;

pub(crate) fn trials() -> Vec<Trial> {
    let (root, other) = (is_root(), is_root() && can_be_another());
    vec![
        trial("a_root_of_another_user", a_root_of_another_user).with_ignored_flag(!root),
        trial("a_directory_of_another_user", a_directory_of_another_user).with_ignored_flag(!root),
        trial("an_entry_of_another_user", an_entry_of_another_user).with_ignored_flag(!root),
        trial("a_shared_root_brings_its_group", a_shared_root_brings_its_group).with_ignored_flag(!root),
        trial("two_users_share_a_store", two_users_share_a_store).with_ignored_flag(!other),
        trial("another_users_numbers_can_be_read_and_not_locked", another_users_numbers)
            .with_ignored_flag(!other),
        trial("an_entry_that_another_user_closed_is_a_miss", a_closed_entry).with_ignored_flag(!other),
        trial("an_unreadable_entry_is_an_io_miss", an_unreadable_entry).with_ignored_flag(root),
        trial("a_root_that_others_can_write_to", a_root_that_others_can_write_to),
        trial("a_directory_that_others_can_write_to", a_directory_that_others_can_write_to),
        trial("a_linked_entry_directory_is_not_followed", a_linked_entry_directory),
        trial("a_linked_directory_of_the_store_is_not_followed", a_linked_directory_of_the_store),
        trial("a_linked_entry_is_not_followed", a_linked_entry),
        trial("a_root_may_be_a_link", a_root_may_be_a_link),
        trial("a_root_that_is_no_directory", a_root_that_is_no_directory),
        trial("a_root_is_private_and_marked", a_root_is_private_and_marked),
        trial("names_of_targets_are_plain", names_of_targets_are_plain),
    ]
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// An empty directory with this mode, to be the root.
fn root(bits: u32) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    chmod(directory.path(), 0o755);
    let root = directory.path().join("root");
    fs::create_dir(&root).unwrap();
    chmod(&root, bits);
    (directory, root)
}

/// An empty directory that asks for sharing with [`GROUP`].
fn shared_root() -> (TempDir, PathBuf) {
    let (directory, path) = root(0o755);
    chown(&path, None, Some(GROUP)).unwrap();
    chmod(&path, 0o2775);
    (directory, path)
}

/// The untrusted path, the reason, and help.
fn untrusted(error: StoreError) -> (PathBuf, String, String) {
    match error {
        StoreError::Untrusted { path, problem, help, .. } => (path, problem, help),
        other => panic!("{other:?}"),
    }
}

fn a_root_of_another_user() {
    let (_dir, root) = root(0o755);
    chown(&root, Some(OTHER), None).unwrap();
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let error = Store::open(StoreConfig::new(&root).with_access(access)).unwrap_err();
        assert!(error.to_string().contains("code that will run"), "{error}");
        let (path, problem, help) = untrusted(error);
        assert_eq!(path, root);
        assert!(problem.contains("54321"), "{problem}");
        assert!(help.contains("add 54321 to the trusted owners"), "{help}");
    }
    assert!(names(&root).is_empty(), "nothing is written into an untrusted directory");
    // A request for sharing does not make its owner trusted.
    chmod(&root, 0o2775);
    untrusted(Store::open(StoreConfig::new(&root)).unwrap_err());

    chmod(&root, 0o755);
    let config = StoreConfig::new(&root).with_trusted_owners(vec![1, OTHER]);
    let store = Store::open(config).unwrap().target(TARGET).unwrap();
    store.put(&key("relu"), &Created::new("relu", 0).entry()).unwrap();
    chown(store.path(&key("relu")), Some(OTHER), None).unwrap();
    Created::new("relu", 0).assert_is(&hit(&store, &key("relu")));
}

fn a_directory_of_another_user() {
    for below in ["v1", "v1/cpu-x86_64", "v1/cpu-x86_64/entries", "v1/cpu-x86_64/tmp", "v1/cpu-x86_64/locks"]
    {
        let (directory, _) = fresh();
        let path = directory.path().join(below);
        chown(&path, Some(OTHER), None).unwrap();
        let opened = Store::open(StoreConfig::new(directory.path())).and_then(|store| store.target(TARGET));
        assert_eq!(untrusted(opened.unwrap_err()).0, path);
    }
    let (_dir, store) = fresh();
    let key = key("relu");
    let shard = store.path(&key).parent().map(Path::to_owned).unwrap();
    store.put(&key, &Created::new("relu", 0).entry()).unwrap();
    chown(&shard, Some(OTHER), None).unwrap();
    assert!(matches!(miss(&store, &key), Miss::Untrusted(_)));
    let error = store.put_replacing(&key, &Created::new("relu", 1).entry(), Overwrite::Always).unwrap_err();
    assert_eq!(untrusted(error).0, shard);
}

fn an_entry_of_another_user() {
    let (_dir, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 0));
    store.put(&key, &made.entry()).unwrap();
    let path = store.path(&key);
    chown(&path, Some(OTHER), None).unwrap();
    let before = snapshot(&path);
    let Miss::Untrusted(error) = miss(&store, &key) else { panic!("its owner is not trusted") };
    let (found, problem, help) = untrusted(error);
    assert_eq!(found, path);
    assert!(
        problem.contains("54321") && help.contains("add 54321 to the trusted owners"),
        "{problem}; {help}"
    );
    assert_eq!(snapshot(&path), before);
    // A build creates its own entry instead.
    assert_eq!(store.put(&key, &made.entry()).unwrap(), PutOutcome::Published);
    made.assert_is(&hit(&store, &key));
}

fn a_root_that_others_can_write_to() {
    for (bits, hint) in
        [(0o777, "chmod o-w"), (0o1777, "chmod o-w"), (0o2777, "chmod o-w"), (0o770, "chmod g+s")]
    {
        let (_dir, root) = root(bits);
        let (path, problem, help) = untrusted(Store::open(StoreConfig::new(&root)).unwrap_err());
        assert_eq!(path, root);
        assert!(problem.contains(&format!("{bits:04o}")), "{problem}");
        assert!(help.contains(hint) && help.contains(root.to_str().unwrap()), "{help}");
        assert!(names(&root).is_empty());
    }
}

fn a_directory_that_others_can_write_to() {
    // Only the root can ask for sharing: 2775 further down does not show which users may write there.
    for bits in [0o777, 0o775, 0o2775] {
        let (directory, store) = fresh();
        let (key, made) = (key("relu"), Created::new("relu", 0));
        store.put(&key, &made.entry()).unwrap();
        chmod(&directory.path().join("v1"), bits);
        assert_eq!(
            untrusted(Store::open(StoreConfig::new(directory.path())).unwrap_err()).0,
            directory.path().join("v1")
        );
        chmod(&directory.path().join("v1"), 0o755);
        for entry_bits in [0o666, 0o664, 0o2664] {
            chmod(&store.path(&key), entry_bits);
            assert!(matches!(miss(&store, &key), Miss::Untrusted(_)), "{entry_bits:o}");
        }
        chmod(&store.path(&key), 0o444);
        made.assert_is(&hit(&store, &key));
    }
}

fn a_shared_root_brings_its_group() {
    let (_dir, root) = shared_root();
    let store = open(&root);
    let (key, made) = (key("relu"), Created::new("relu", 0));
    store.put(&key, &made.entry()).unwrap();
    let path = store.path(&key);
    for directory in [store.dir(), &store.dir().join("tmp"), path.parent().unwrap()] {
        assert_eq!(mode(directory), 0o2775, "{}", directory.display());
    }
    let set = |user, group, bits| {
        chown(&path, Some(user), Some(group)).unwrap();
        chmod(&path, bits);
    };
    for (user, group, bits, trusted) in [
        (OTHER, GROUP, 0o644, true),
        (OTHER, GROUP, 0o664, true),
        (0, GROUP, 0o644, true),
        (0, 0, 0o644, true),
        (OTHER, GROUP, 0o646, false),
        (OTHER, GROUP + 1, 0o644, false),
        (0, GROUP + 1, 0o664, false),
        (0, GROUP + 1, 0o2664, false),
    ] {
        set(user, group, bits);
        match miss_or_hit(&store, &key) {
            None => assert!(trusted, "{user}:{group} {bits:o}"),
            Some(Miss::Untrusted(_)) => assert!(!trusted, "{user}:{group} {bits:o}"),
            Some(other) => panic!("{other:?}"),
        }
    }
}

fn miss_or_hit(store: &opkeep_store::TargetStore, key: &opkeep_digest::Digest) -> Option<Miss> {
    match store.get(key) {
        opkeep_store::Lookup::Hit(_) => None,
        opkeep_store::Lookup::Miss(miss) => Some(miss),
    }
}

fn another(arguments: &[&str]) -> std::process::Command {
    let mut command = child("trust", arguments);
    command.uid(OTHER).gid(GROUP);
    command
}

/// Whether another user can run this program.
fn can_be_another() -> bool {
    another(&["nothing"]).status().is_ok_and(|status| status.success())
}

/// The action of the other user.
pub(crate) fn other_process(arguments: &[String]) {
    if let [how, path] = arguments
        && how == "closed"
    {
        return use_closed(Path::new(path));
    }
    if let [how, path] = arguments {
        assert_eq!(how, "read");
        let config = StoreConfig::new(path).with_trusted_owners(vec![0]).with_access(Access::ReadOnly);
        let store = Store::open(config).unwrap().target(TARGET).unwrap();
        assert_eq!((store.statistics().puts, store.statistics().hits), (1, 2));
        assert_eq!(store.estimate().unwrap().entries, 1);
        // A process that can open a file can lock it, and keep others waiting.
        for lock in ["numbers.lock", "gc.lock"] {
            let opened = fs::File::open(store.dir().join(lock)).map(drop);
            assert_eq!(opened.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied, "{lock}");
        }
    }
    if let [how, path, held] = arguments {
        assert_eq!(how, "share");
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let store = Store::open(StoreConfig::new(path).with_trusted_owners(vec![0])).unwrap();
        let store = store.target(TARGET).unwrap();
        Created::new("ours", 0).assert_is(&hit(&store, &key("ours")));
        store.put(&key("theirs"), &Created::new("theirs", 1).entry()).unwrap();
        // A lock that this user created and the other one waits for, and the other way round.
        let _theirs = lock(&store, &key("theirs"));
        let outcome = within(&store, &key("ours"), Duration::from_millis(50));
        assert!(matches!(outcome, LockOutcome::TimedOut), "{outcome:?}");
        fs::write(held, "").unwrap();
        let held = Path::new(held);
        until("the end", || !held.exists());
    }
}

fn two_users_share_a_store() {
    let (_dir, root) = shared_root();
    let store = open(&root);
    store.put(&key("ours"), &Created::new("ours", 0).entry()).unwrap();
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
    fs::File::open(store.path(&key("ours"))).unwrap().set_modified(an_hour_ago).unwrap();
    let _ours = lock(&store, &key("ours"));
    let held = root.join("held");
    let command = another(&["share", root.to_str().unwrap(), held.to_str().unwrap()]).spawn();
    let mut other = Children(vec![command.unwrap()]);
    until("the other user", || held.exists());
    Created::new("theirs", 1).assert_is(&hit(&store, &key("theirs")));
    let used = fs::metadata(store.path(&key("ours"))).unwrap().modified().unwrap();
    assert!(used > an_hour_ago + Duration::from_secs(3000), "the other user's hit is noted, too");
    // As a member of the group, and not with root's rights: the file itself must be accessible.
    let path = store.dir().join("locks").join(key("theirs").to_string());
    assert_eq!(mode(&path), 0o660);
    assert!(matches!(within(&store, &key("theirs"), Duration::from_millis(50)), LockOutcome::TimedOut));
    fs::remove_file(&held).unwrap();
    assert!(other.0[0].wait().unwrap().success());
    assert!(matches!(within(&store, &key("theirs"), Duration::from_secs(5)), LockOutcome::Acquired(_)));
}

/// A store that other users may read, and whose owner they trust.
fn another_users_numbers() {
    let (_dir, root) = root(0o755);
    let store = open(&root);
    store.put(&key("ours"), &Created::new("ours", 0).entry()).unwrap();
    hit(&store, &key("ours"));
    hit(&store, &key("ours"));
    store.gc(&opkeep_store::GcOptions::default()).unwrap();
    drop(store);
    assert!(another(&["read", root.to_str().unwrap()]).status().unwrap().success());
}

/// Another user of the group has closed a kernel, as a copy with `umask 077` is: that is a miss which says who can open it, and a build
/// replaces it.
fn a_closed_entry() {
    let (_dir, root) = shared_root();
    let store = open(&root);
    for name in ["ours", "other"] {
        store.put(&key(name), &Created::new(name, 0).entry()).unwrap();
        chmod(&store.path(&key(name)), 0o600);
    }
    assert!(another(&["closed", root.to_str().unwrap()]).status().unwrap().success());
    assert_eq!(mode(&store.path(&key("ours"))), 0o664);
    Created::new("ours", 1).assert_is(&hit(&store, &key("ours")));
    Created::new("other", 0).assert_is(&hit(&store, &key("other")));
}

fn use_closed(root: &Path) {
    let store = Store::open(StoreConfig::new(root).with_trusted_owners(vec![0])).unwrap();
    let store = store.target(TARGET).unwrap();
    let found = miss(&store, &key("ours"));
    let Miss::Io(error) = &found else { panic!("{found:?}") };
    let text = error.to_string();
    assert!(text.contains("its owner is user 0, and its mode 0600 keeps user 54321 out"), "{text}");
    assert!(text.contains("`chmod g+r`"), "{text}");
    assert_eq!(store.gc(&GcOptions::default()).unwrap().before.entries.files, 2);
    let verified = store.verify(&VerifyOptions::default());
    let says = |problem: &StoreProblem| format!("{problem:?}").contains("`chmod g+r`");
    assert!(verified.problems.len() == 2 && verified.problems.iter().all(says), "{verified:?}");
    assert!(store.repair(&RepairOptions::default()).unwrap().actions.is_empty());
    let ours = Created::new("ours", 1);
    assert_eq!(store.put(&key("ours"), &ours.entry()).unwrap(), PutOutcome::Published);
    ours.assert_is(&hit(&store, &key("ours")));
}

/// No process may read it, its owner included.
fn an_unreadable_entry() {
    let (_dir, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 0));
    store.put(&key, &made.entry()).unwrap();
    let path = store.path(&key);
    chmod(&path, 0);
    let before = inode(&path);
    let found = miss(&store, &key);
    assert!(matches!(&found, Miss::Io(StoreError::Io { .. })), "{found:?}");
    assert_eq!(inode(&path), before);
    chmod(&path, 0o644);
    made.assert_is(&hit(&store, &key));
}

fn a_linked_entry_directory() {
    let (directory, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 0));
    store.put(&key, &made.entry()).unwrap();
    let shard = store.path(&key).parent().map(Path::to_owned).unwrap();
    let elsewhere = directory.path().join("elsewhere");
    fs::rename(&shard, &elsewhere).unwrap();
    symlink(&elsewhere, &shard).unwrap();
    let before = snapshot(&elsewhere);
    // Also for a store that has used the directory when it was one: nothing is written through the link.
    for (store, knows) in [(store, true), (open(directory.path()), false)] {
        if !knows {
            let found = miss(&store, &key);
            assert!(matches!(found, Miss::Untrusted(_)), "{found:?}");
        }
        let error =
            store.put_replacing(&key, &Created::new("relu", 1).entry(), Overwrite::Always).unwrap_err();
        assert!(matches!(&error, StoreError::NotADirectory { path } if *path == shard), "{error:?}");
        assert!(names(&store.dir().join("tmp")).is_empty());
        assert_eq!(snapshot(&elsewhere), before);
    }
}

fn a_linked_directory_of_the_store() {
    for below in [
        "v1",
        "v1/cpu-x86_64",
        "v1/cpu-x86_64/entries",
        "v1/cpu-x86_64/tmp",
        "v1/cpu-x86_64/locks",
        "v1/cpu-x86_64/quarantine",
    ] {
        let (directory, _) = fresh();
        let (path, elsewhere) = (directory.path().join(below), directory.path().join("elsewhere"));
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        let before = snapshot(&elsewhere);
        let opened = Store::open(StoreConfig::new(directory.path())).and_then(|store| store.target(TARGET));
        let error = opened.unwrap_err();
        assert!(matches!(&error, StoreError::NotADirectory { path: found } if *found == path), "{error:?}");
        assert_eq!(snapshot(&elsewhere), before);
    }
}

fn a_linked_entry() {
    let (directory, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 0));
    store.put(&key, &made.entry()).unwrap();
    let (path, elsewhere) = (store.path(&key), directory.path().join("elsewhere.kern"));

    // A valid entry that is reached through a link is not one of ours.
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    let before = snapshot(&elsewhere);
    let found = miss(&store, &key);
    assert!(matches!(found, Miss::Io(_)), "{found:?}");
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink(), "it is left alone");
    // A put replaces the link itself.
    assert_eq!(store.put(&key, &Created::new("relu", 1).entry()).unwrap(), PutOutcome::Published);
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    assert_eq!(snapshot(&elsewhere), before);

    // A damaged entry that was replaced by a link before it was quarantined: the path no longer names the judged file.
    fs::write(&path, "damaged").unwrap();
    let Miss::Damaged(judged) = miss(&store, &key) else { panic!("it is damaged") };
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert!(!store.quarantine(&key, &judged, &lock(&store, &key)).unwrap());
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(fs::read(&elsewhere).unwrap(), b"damaged");
    assert!(names(&store.dir().join("quarantine")).is_empty());

    // A link to nowhere.
    fs::remove_file(&elsewhere).unwrap();
    assert!(matches!(miss(&store, &key), Miss::Io(_)));
    store.put(&key, &made.entry()).unwrap();
    assert!(!elsewhere.exists());
    made.assert_is(&hit(&store, &key));
}

fn a_root_may_be_a_link() {
    let (directory, real) = root(0o700);
    let link = directory.path().join("link");
    symlink(&real, &link).unwrap();
    let made = Created::new("relu", 0);
    open(&link).put(&key("relu"), &made.entry()).unwrap();
    made.assert_is(&hit(&open(&real), &key("relu")));
    // The owner of the link's target counts, not that of the link.
    chmod(&real, 0o777);
    assert_eq!(untrusted(Store::open(StoreConfig::new(&link)).unwrap_err()).0, link);
}

fn a_root_that_is_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "precious").unwrap();
    let nowhere = directory.path().join("nowhere");
    symlink(directory.path().join("missing"), &nowhere).unwrap();
    for path in [&file, &file.join("below"), &nowhere] {
        let error = Store::open(StoreConfig::new(path)).unwrap_err();
        assert!(matches!(&error, StoreError::NotADirectory { path: found } if found == path), "{error:?}");
        assert!(error.to_string().contains("choose another directory"), "{error}");
    }
    let error = Store::open(StoreConfig::new(&file).with_access(Access::ReadOnly)).unwrap_err();
    assert!(matches!(error, StoreError::NotADirectory { .. }), "{error:?}");
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    assert_eq!(names(directory.path()), ["file", "nowhere"]);
}

fn a_root_is_private_and_marked() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("a/b");
    open(&root).put(&key("relu"), &Created::new("relu", 0).entry()).unwrap();
    assert_eq!(mode(&root), 0o700);
    assert_eq!(names(&root), [".gitignore", "CACHEDIR.TAG", "op_cache.ini", "v1"]);
    assert_eq!(fs::read(root.join(".gitignore")).unwrap(), b"*\n");
    let tag = fs::read_to_string(root.join("CACHEDIR.TAG")).unwrap();
    assert_eq!(tag.lines().next(), Some("Signature: 8a477f597d28d172789f06886806bc55"));
    // The user's text stays.
    fs::write(root.join(".gitignore"), "mine\n").unwrap();
    open(&root);
    assert_eq!(fs::read(root.join(".gitignore")).unwrap(), b"mine\n");
}

fn names_of_targets_are_plain() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(StoreConfig::new(directory.path())).unwrap();
    let long = "x".repeat(101);
    for bad in ["", ".", "..", ".x", "a/b", "/etc", "a b", "a\0", "a\n", "é", "../x", "a\\b", "*", &long] {
        let error = store.target(bad).unwrap_err();
        assert!(matches!(&error, StoreError::TargetName { target } if target == bad), "{bad:?}: {error:?}");
    }
    // The file that marks it as a store.
    assert_eq!(names(&directory.path().join("v1")), ["STORE.TAG"]);
    for good in ["Ascend910B1", "cpu-x86_64-v2", "a..b", "-", &long[1..]] {
        store.target(good).unwrap();
    }
}

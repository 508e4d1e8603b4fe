//! The collection of a cache that other processes use, and by processes that are killed.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::CHILD;
use crate::common::{Cache, UNSET, run};
use libtest_mimic::Trial;
use opkeep_cann_cache::{FileGroupKind, GcOptions, GcProgress, gc};
use rustix::fs::{FlockOperation, fcntl_lock};

const HOUR: Duration = Duration::from_secs(3600);
/// The user and group `nobody` of most systems; the ids need no names.
const NOBODY: u32 = 65_534;

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, body: fn()| {
        Trial::test(name, move || {
            body();
            Ok(())
        })
    };
    let mounts = Mounted::new(&Cache::new().dir()).is_some();
    // This user may become another one with permission to run this program.
    let has_other_user = command("try", Path::new("/dev/null"), 0).uid(NOBODY).gid(NOBODY).status().is_ok();
    vec![
        test("a_cache_that_cann_collects_is_left_alone", a_cache_that_cann_collects_is_left_alone),
        test("the_lock_of_cann_is_held_meanwhile", the_lock_of_cann_is_held_meanwhile),
        test("files_that_another_process_has_locked_stay", files_that_another_process_has_locked_stay),
        test("files_that_another_process_has_open_stay", files_that_another_process_has_open_stay),
        test(
            "a_collection_that_is_killed_at_any_deletion_is_completed",
            a_collection_that_is_killed_at_any_deletion_is_completed,
        ),
        test(
            "kernels_of_other_users_are_reported_and_stay_whole",
            kernels_of_other_users_are_reported_and_stay_complete,
        )
        .with_ignored_flag(!has_other_user),
        test("a_full_disk_is_collected", a_full_disk_is_collected).with_ignored_flag(!mounts),
    ]
}

/// Runs `action` on the file or directory at `path`, in the other process.
pub(crate) fn other_process(action: &str, path: &Path, number: &str) {
    match action {
        // As CANN does: opens it for appending, and locks the complete file.
        "lock" => {
            let file = fs::File::options().append(true).create(true).read(true).open(path).unwrap();
            fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
            wait();
        }
        "open" => {
            let _file = fs::File::open(path).unwrap();
            wait();
        }
        "die" => die_at(path, number.parse().unwrap()),
        "try" => {
            let file = fs::File::options().write(true).open(path).unwrap();
            let tried = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
            std::process::exit(i32::from(tried.is_err()));
        }
        _ => gc_and_print(path),
    }
}

/// Reports that the action is done, and waits until the parent ends this process.
fn wait() {
    println!("ready");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lines().next();
}

/// Collects, and kills this process right after deletion `number`.
fn die_at(dir: &Path, number: u32) {
    let deleted = Cell::new(0);
    let progress = |step: GcProgress<'_>| {
        if let GcProgress::Removed { .. } = step {
            deleted.set(deleted.get() + 1);
            if deleted.get() == number {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            }
        }
    };
    run(dir, |options| (options.older_than, options.progress) = (Some(HOUR), &progress));
}

/// Collects as another user, and prints the result.
fn gc_and_print(dir: &Path) {
    let mut options = GcOptions::new(&UNSET);
    options.max_bytes = Some(0);
    match gc(dir, &options) {
        Ok(report) => {
            let failure = report.failure.map(|(path, error)| format!("{}: {error}", path.display()));
            let removed = report.removed.total().files;
            println!("{removed} removed, {} failed, {} unread, {failure:?}", report.failed, report.unread);
        }
        Err(error) => println!("error: {error}"),
    }
}

/// The other process, which is killed on drop.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file system in memory for ten files, unmounted on drop.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn new(at: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "mode=700,size=1m,nr_inodes=10", "tmpfs"]).arg(at);
        mount.output().ok()?.status.success().then(|| Self(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

fn command(action: &str, path: &Path, number: u32) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CHILD, action, path.to_str().unwrap(), &number.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// The other process after its action.
fn other(action: &str, path: &Path) -> Other {
    let mut child = command(action, path, 0).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Other(child)
}

fn finished(action: &str, path: &Path, number: u32) -> ExitStatus {
    command(action, path, number).stdout(Stdio::null()).status().unwrap()
}

fn a_cache_that_cann_collects_is_left_alone() {
    let cache = Cache::new();
    cache.kernel("te_a", 10, 900);
    cache.put("te_orphan.o", "x", 900);
    let all = cache.files();
    let holder = other("lock", &cache.dir().join("op_cache_file_del.lock"));
    for dry_run in [true, false] {
        let report = cache.gc(|options| (options.max_bytes, options.dry_run) = (Some(0), dry_run));
        assert!(report.is_locked && report.before.total().files == 0);
        assert_eq!(cache.files(), all);
    }
    drop(holder);
    assert!(!cache.gc(|options| options.max_bytes = Some(0)).is_locked);
    assert!(cache.files().is_empty() && cache.has("op_cache_file_del.lock"));
}

fn the_lock_of_cann_is_held_meanwhile() {
    let cache = Cache::new();
    cache.kernel("te_a", 10, 900);
    cache.put("te_a.lock", "", 900);
    let lock = cache.dir().join("op_cache_file_del.lock");
    let held = Cell::new(0);
    let progress = |step: GcProgress<'_>| {
        if let GcProgress::Removed { file, .. } = step {
            assert_eq!(finished("try", &lock, 0).code(), Some(1), "after {file}");
            if cache.has("te_a.lock") {
                assert_eq!(finished("try", &cache.dir().join("te_a.lock"), 0).code(), Some(1));
            }
            held.set(held.get() + 1);
        }
    };
    run(&cache.dir(), |options| (options.older_than, options.progress) = (Some(HOUR), &progress));
    assert_eq!(held.get(), 3);
    assert_eq!(finished("try", &lock, 0).code(), Some(0), "and released then");
}

fn files_that_another_process_has_locked_stay() {
    let cache = Cache::new();
    for stem in ["te_free", "te_stored", "te_tried"] {
        cache.kernel(stem, 10, 900);
        cache.put(&format!("{stem}_pre.json"), "{}", 900);
        cache.put(&format!("{stem}.lock"), "", 900);
        cache.put(&format!("{stem}_pre.lock"), "", 900);
    }
    cache.put("te_dead.lock", "", 900);
    cache.put("te_writing.o", "x", 900);
    cache.put("te_writing.lock", "", 900);
    let names = ["te_stored.lock", "te_tried_pre.lock", "te_dead.lock", "te_writing.lock"];
    let holders: Vec<Other> = names.iter().map(|name| other("lock", &cache.dir().join(name))).collect();
    let stay: BTreeSet<String> =
        cache.files().into_iter().filter(|name| !name.starts_with("te_free")).collect();
    for dry_run in [true, false] {
        let report = cache.gc(|options| (options.max_bytes, options.dry_run) = (Some(0), dry_run));
        assert_eq!((report.in_use.locked, report.in_use.open), (4, 0), "{report:?}");
        assert_eq!(report.removed.count(FileGroupKind::Kernel), 1);
    }
    assert_eq!(cache.files(), stay);
    drop(holders);
    cache.gc(|options| options.max_bytes = Some(0));
    assert!(cache.files().is_empty(), "{:?}", cache.files());
}

fn files_that_another_process_has_open_stay() {
    let cache = Cache::new();
    for stem in ["te_free", "te_loaded"] {
        cache.kernel(stem, 10, 900);
    }
    cache.put("te_x.o_1_2_3.temp", "x", 900);
    let names = ["te_loaded.o", "te_x.o_1_2_3.temp"];
    let readers: Vec<Other> = names.iter().map(|name| other("open", &cache.dir().join(name))).collect();
    let report = cache.gc(|options| options.older_than = Some(HOUR));
    assert_eq!((report.in_use.open, report.removed.count(FileGroupKind::Kernel)), (2, 1), "{report:?}");
    assert!(cache.has("te_loaded.json") && cache.files().len() == 3);
    drop(readers);
    cache.gc(|options| options.older_than = Some(HOUR));
    assert!(cache.files().is_empty());
}

/// The next collection deletes the remains below the limit, too, and none of the kernels in use.
fn a_collection_that_is_killed_at_any_deletion_is_completed() {
    let master =
        r#"{"jsonList":[{"jsonFileName":"te_m_mix_aic.json"},{"jsonFileName":"te_m_mix_aiv.json"}]}"#;
    let mut kills = 0;
    loop {
        let cache = Cache::new();
        cache.kernel("te_young", 10, 5);
        cache.put("te_young_pre.json", "{}", 900);
        cache.put("te_young.lock", "", 900);
        let stays = cache.files();
        cache.kernel("te_a", 10, 900);
        cache.put("te_a.json", r#"{"binFileName":"te_a","binFileSuffix":".o","headerFileSuffix":".h"}"#, 900);
        for name in ["te_a.h", "te_a_pre.json", "te_a.lock", "te_a_pre.lock", "te_other.o", "te_orphan.o"] {
            cache.put(name, "", 900);
        }
        cache.put("te_named.json", r#"{"binFileName":"te_other","binFileSuffix":".o"}"#, 900);
        cache.put("te_m.json", master, 800);
        for side in ["te_m_mix_aic", "te_m_mix_aiv"] {
            cache.kernel(side, 10, 800);
        }
        let all = cache.files().len() - stays.len();
        let status = finished("die", &cache.dir(), kills + 1);
        if status.success() {
            assert_eq!(
                (cache.files(), kills as usize),
                (stays, all),
                "a process was killed at every deletion"
            );
            break;
        }
        assert_eq!(status.signal(), Some(9));
        kills += 1;
        assert_eq!(cache.files().len(), stays.len() + all - kills as usize);

        let report = cache.gc(|_| {});
        let left = cache.files();
        // A kernel stays or is deleted as a whole; a precompile is valid without its kernel.
        let whole = [
            &["te_a.json", "te_a.o", "te_a.h"][..],
            &["te_named.json", "te_other.o"],
            &["te_m.json", "te_m_mix_aic.json", "te_m_mix_aic.o", "te_m_mix_aiv.json", "te_m_mix_aiv.o"],
        ];
        for kernel in whole {
            let left_files = kernel.iter().filter(|name| left.contains(**name)).count();
            assert!(
                left_files == 0 || left_files == kernel.len(),
                "after {kills}: {kernel:?} in {left:?}, {report:?}"
            );
        }
        assert!(stays.is_subset(&left) && !left.contains("te_orphan.o"));
        let stray_locks = left.iter().filter(|name| name.ends_with(".lock")).filter(|name| {
            let stem = name.trim_end_matches(".lock");
            !left.contains(&format!("{stem}.json"))
        });
        assert_eq!(stray_locks.count(), 0, "after {kills}: {left:?}");
        cache.gc(|options| options.older_than = Some(HOUR));
        assert_eq!(cache.files(), stays);
    }
}

fn kernels_of_other_users_are_reported_and_stay_complete() {
    let collect = |cache: &Cache| {
        let mut command = command("gc", &cache.dir(), 0);
        let output = command.uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let cache = Cache::new();
    set_mode(cache.base(), 0o755);
    cache.kernel("te_a", 10, 900);
    cache.put("te_orphan.o", "x", 900);
    set_mode(&cache.dir(), 0o755);
    let text = collect(&cache);
    assert!(text.contains("error: cannot lock `op_cache_file_del.lock`: Permission denied"), "{text}");
    // In this directory every user may create files, and delete only own ones.
    set_mode(&cache.dir(), 0o1777);
    // Of this kernel only the description is the user's. Deleting that alone would leave an orphan.
    cache.kernel("te_mixed", 10, 900);
    std::os::unix::fs::chown(cache.dir().join("te_mixed.json"), Some(NOBODY), None).unwrap();
    let all = cache.files();
    let text = collect(&cache);
    assert!(text.contains("0 removed, 2 failed, 1 unread") && text.contains("not permitted"), "{text}");
    assert_eq!(cache.files(), all);
    // Where all users may delete, all may collect, but the descriptions that show orphans cannot be read.
    fs::remove_file(cache.dir().join("op_cache_file_del.lock")).unwrap();
    set_mode(&cache.dir(), 0o777);
    let text = collect(&cache);
    assert!(text.contains("4 removed, 0 failed, 1 unread"), "{text}");
    assert_eq!(cache.files(), BTreeSet::from(["te_orphan.o".to_owned()]));
}

fn a_full_disk_is_collected() {
    let cache = Cache::new();
    let _mounted = Mounted::new(&cache.dir()).unwrap();
    (0..4).for_each(|number| cache.kernel(&format!("te_{number}"), 10, 900 - number));
    let filler = |number: u32| fs::write(cache.dir().join(format!("filler_{number}")), "");
    assert!((0..20).any(|number| filler(number).is_err()), "it is full");
    let report = cache.gc(|options| options.older_than = Some(HOUR));
    assert_eq!(report.removed.count(FileGroupKind::Kernel), 4, "{report:?}");
    filler(99).unwrap();
}

//! Making room in CANN's cache beside processes that use it, and by processes that die at it. The test binary runs
//! itself as the other process.

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
use crate::laid_caches::{Cache, place, run};
use libtest_mimic::Trial;
use opkeep_framework_cache::gc::{FileGroupKind, GcOptions, GcProgress, LimitSettings, gc};
use rustix::fs::{FlockOperation, fcntl_lock};

const HOUR: Duration = Duration::from_secs(3600);
/// The user and group `nobody` of most systems; that it has a name does not matter.
const NOBODY: u32 = 65_534;

/// What this program does as the other process.
pub(crate) fn other_process(arguments: &[String]) {
    child(&arguments[0], Path::new(&arguments[1]), &arguments[2]);
}

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, body: fn()| {
        Trial::test(name, move || {
            body();
            Ok(())
        })
    };
    let mounts = Mounted::new(&Cache::new().folder()).is_some();
    // As root, if its folder is open to others.
    let foreign = command("try", Path::new("/dev/null"), 0).uid(NOBODY).gid(NOBODY).status().is_ok();
    vec![
        test("a_folder_that_cann_ages_is_left_to_it", a_folder_that_cann_ages_is_left_to_it),
        test("canns_lock_for_aging_is_held_meanwhile", canns_lock_for_aging_is_held_meanwhile),
        test("what_another_process_has_locked_stays", what_another_process_has_locked_stays),
        test("what_another_process_has_open_stays", what_another_process_has_open_stays),
        test("whoever_is_killed_at_any_deletion_is_healed", whoever_is_killed_at_any_deletion_is_healed),
        test("what_is_anothers_is_told_and_stays_whole", what_is_anothers_is_told_and_stays_whole)
            .with_ignored_flag(!foreign),
        test("room_is_made_where_no_file_can_be", room_is_made_where_no_file_can_be)
            .with_ignored_flag(!mounts),
    ]
}

/// What the other process does with the file or folder at `path`.
fn child(deed: &str, path: &Path, number: &str) {
    match deed {
        // As CANN does: opened to append, and locked as a whole.
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
        _ => foreign_gc(path),
    }
}

/// Says that it is done, and waits for the parent to end us.
fn wait() {
    println!("ready");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lines().next();
}

/// Is killed right after the deletion of this number.
fn die_at(folder: &Path, number: u32) {
    let seen = Cell::new(0);
    let watch = |step: GcProgress<'_>| {
        if let GcProgress::Removed { .. } = step {
            seen.set(seen.get() + 1);
            if seen.get() == number {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            }
        }
    };
    run(&place(folder), |options| (options.older_than, options.watch) = (Some(HOUR), &watch));
}

/// Makes room as a user who owns nothing there; prints what came of it.
fn foreign_gc(folder: &Path) {
    let environment = LimitSettings::default();
    let options = GcOptions {
        dry_run: false,
        max_bytes: Some(0),
        older_than: None,
        environment: &environment,
        watch: &|_| {},
        cancelled: &|| false,
    };
    match gc(&place(folder), &options) {
        Ok(report) => {
            let failure = report.failure.map(|(path, error)| format!("{}: {error}", path.display()));
            let removed = report.removed.total().files;
            println!("{removed} removed, {} failed, {} unread, {failure:?}", report.failed, report.unread);
        }
        Err(error) => println!("error: {error}"),
    }
}

/// The other process, which does not outlive the test.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file system in memory for ten files, gone when dropped.
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

fn command(deed: &str, path: &Path, number: u32) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CHILD, "gc", deed, path.to_str().unwrap(), &number.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// The other process, once it has done its deed.
fn other(deed: &str, path: &Path) -> Other {
    let mut child = command(deed, path, 0).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Other(child)
}

fn finished(deed: &str, path: &Path, number: u32) -> ExitStatus {
    command(deed, path, number).stdout(Stdio::null()).status().unwrap()
}

fn a_folder_that_cann_ages_is_left_to_it() {
    let cache = Cache::new();
    cache.kernel("te_a", 10, 900);
    cache.put("te_orphan.o", "x", 900);
    let all = cache.files();
    let aging = other("lock", &cache.folder().join("op_cache_file_del.lock"));
    for dry_run in [true, false] {
        let report = cache.gc(|options| (options.max_bytes, options.dry_run) = (Some(0), dry_run));
        assert!(report.busy && report.before.total().files == 0);
        assert_eq!(cache.files(), all);
    }
    drop(aging);
    assert!(!cache.gc(|options| options.max_bytes = Some(0)).busy);
    assert!(cache.files().is_empty() && cache.has("op_cache_file_del.lock"));
}

fn canns_lock_for_aging_is_held_meanwhile() {
    let cache = Cache::new();
    cache.kernel("te_a", 10, 900);
    cache.put("te_a.lock", "", 900);
    let lock = cache.folder().join("op_cache_file_del.lock");
    let held = Cell::new(0);
    let watch = |step: GcProgress<'_>| {
        if let GcProgress::Removed { file, .. } = step {
            assert_eq!(finished("try", &lock, 0).code(), Some(1), "after {file}");
            if cache.has("te_a.lock") {
                assert_eq!(finished("try", &cache.folder().join("te_a.lock"), 0).code(), Some(1));
            }
            held.set(held.get() + 1);
        }
    };
    run(&cache.place(), |options| (options.older_than, options.watch) = (Some(HOUR), &watch));
    assert_eq!(held.get(), 3);
    assert_eq!(finished("try", &lock, 0).code(), Some(0), "and then given up");
}

fn what_another_process_has_locked_stays() {
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
    let holders: Vec<Other> = names.iter().map(|name| other("lock", &cache.folder().join(name))).collect();
    let stay: BTreeSet<String> =
        cache.files().into_iter().filter(|name| !name.starts_with("te_free")).collect();
    for dry_run in [true, false] {
        let report = cache.gc(|options| (options.max_bytes, options.dry_run) = (Some(0), dry_run));
        assert_eq!((report.kept.locked, report.kept.open), (4, 0), "{report:?}");
        assert_eq!(report.removed.count(FileGroupKind::Kernel), 1);
    }
    assert_eq!(cache.files(), stay);
    drop(holders);
    cache.gc(|options| options.max_bytes = Some(0));
    assert!(cache.files().is_empty(), "{:?}", cache.files());
}

fn what_another_process_has_open_stays() {
    let cache = Cache::new();
    for stem in ["te_free", "te_loaded"] {
        cache.kernel(stem, 10, 900);
    }
    cache.put("te_x.o_1_2_3.temp", "x", 900);
    let names = ["te_loaded.o", "te_x.o_1_2_3.temp"];
    let readers: Vec<Other> = names.iter().map(|name| other("open", &cache.folder().join(name))).collect();
    let report = cache.gc(|options| options.older_than = Some(HOUR));
    assert_eq!((report.kept.open, report.removed.count(FileGroupKind::Kernel)), (2, 1), "{report:?}");
    assert!(cache.has("te_loaded.json") && cache.files().len() == 3);
    drop(readers);
    cache.gc(|options| options.older_than = Some(HOUR));
    assert!(cache.files().is_empty());
}

/// Whatever is left, the next gc takes it although there is room, and nothing of the kernels that were to stay.
fn whoever_is_killed_at_any_deletion_is_healed() {
    let master =
        r#"{"jsonList":[{"jsonFileName":"te_m_mix_aic.json"},{"jsonFileName":"te_m_mix_aiv.json"}]}"#;
    let mut deaths = 0;
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
        let ended = finished("die", &cache.folder(), deaths + 1);
        if ended.success() {
            assert_eq!((cache.files(), deaths as usize), (stays, all), "every deletion was one to die at");
            break;
        }
        assert_eq!(ended.signal(), Some(9));
        deaths += 1;
        assert_eq!(cache.files().len(), stays.len() + all - deaths as usize);

        let report = cache.gc(|_| {});
        let left = cache.files();
        // What is whole stays whole, or goes whole; a trial compile is in order without its kernel.
        let whole = [
            &["te_a.json", "te_a.o", "te_a.h"][..],
            &["te_named.json", "te_other.o"],
            &["te_m.json", "te_m_mix_aic.json", "te_m_mix_aic.o", "te_m_mix_aiv.json", "te_m_mix_aiv.o"],
        ];
        for kernel in whole {
            let there = kernel.iter().filter(|name| left.contains(**name)).count();
            assert!(
                there == 0 || there == kernel.len(),
                "after {deaths}: {kernel:?} in {left:?}, {report:?}"
            );
        }
        assert!(stays.is_subset(&left) && !left.contains("te_orphan.o"));
        let strays = left.iter().filter(|name| name.ends_with(".lock")).filter(|name| {
            let stem = name.trim_end_matches(".lock");
            !left.contains(&format!("{stem}.json"))
        });
        assert_eq!(strays.count(), 0, "after {deaths}: {left:?}");
        cache.gc(|options| options.older_than = Some(HOUR));
        assert_eq!(cache.files(), stays);
    }
}

fn what_is_anothers_is_told_and_stays_whole() {
    let said = |cache: &Cache| {
        let mut command = command("gc", &cache.folder(), 0);
        let output = command.uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let cache = Cache::new();
    set_mode(cache.base(), 0o755);
    cache.kernel("te_a", 10, 900);
    cache.put("te_orphan.o", "x", 900);
    set_mode(&cache.folder(), 0o755);
    let text = said(&cache);
    assert!(text.contains("error: cannot lock `op_cache_file_del.lock`: Permission denied"), "{text}");
    // A folder where everybody may make files, and delete only his own.
    set_mode(&cache.folder(), 0o1777);
    // Of one kernel only the description is his: without the object it would be worse than it was.
    cache.kernel("te_mixed", 10, 900);
    std::os::unix::fs::chown(cache.folder().join("te_mixed.json"), Some(NOBODY), None).unwrap();
    let all = cache.files();
    let text = said(&cache);
    assert!(text.contains("0 removed, 2 failed, 1 unread") && text.contains("not permitted"), "{text}");
    assert_eq!(cache.files(), all);
    // Where all may delete, all may make room; but what is an orphan they cannot know.
    fs::remove_file(cache.folder().join("op_cache_file_del.lock")).unwrap();
    set_mode(&cache.folder(), 0o777);
    let text = said(&cache);
    assert!(text.contains("4 removed, 0 failed, 1 unread"), "{text}");
    assert_eq!(cache.files(), BTreeSet::from(["te_orphan.o".to_owned()]));
}

fn room_is_made_where_no_file_can_be() {
    let cache = Cache::new();
    let _mounted = Mounted::new(&cache.folder()).unwrap();
    (0..4).for_each(|number| cache.kernel(&format!("te_{number}"), 10, 900 - number));
    let filler = |number: u32| fs::write(cache.folder().join(format!("filler_{number}")), "");
    assert!((0..20).any(|number| filler(number).is_err()), "it is full");
    let report = cache.gc(|options| options.older_than = Some(HOUR));
    assert_eq!(report.removed.count(FileGroupKind::Kernel), 4, "{report:?}");
    filler(99).unwrap();
}

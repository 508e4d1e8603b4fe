//! Many ranks that start together on one store.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::common::Place;
use crate::common::crowd::{Build, Crowd, LoggingCompiler, can_make, intact_pairs, network, until};
use rustix::process::Signal;

const RANKS: usize = 8;
const KERNELS: usize = 12;

/// The default number of compilers on this machine.
fn processors() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

#[test]
fn cold_builds_compile_each_kernel_once_with_no_more_compilers_than_processors() {
    let place = Place::new();
    network(&place, KERNELS);
    let cc = LoggingCompiler::new(&place, "");
    let mut compiled = 0;
    for ran in Crowd::start(&place, RANKS, &cc, &[]).end_well() {
        let [reused, own, shared] = ["reused", "compiled", "shared"].map(|outcome| ran.count(outcome));
        assert_eq!(reused + own + shared, KERNELS as u64, "{ran:?}");
        assert_eq!(ran.json()["warnings"].as_array().unwrap().len(), 0, "{ran:?}");
        compiled += own;
    }
    assert_eq!((cc.compiles(), compiled), ((KERNELS, KERNELS), KERNELS as u64));
    assert!(cc.most_at_once() <= processors(), "{:?}", cc.lines());
    for rank in 0..RANKS {
        assert_eq!(intact_pairs(&place.path(&format!("rank_{rank}/kernel_meta"))), KERNELS);
    }
}

/// The limit is the highest requested number, and not eight times that number.
#[test]
fn all_ranks_together_run_as_many_compilers_as_one_requests() {
    let place = Place::new();
    network(&place, KERNELS);
    // Long enough that the highest number of compilers runs.
    let cc = LoggingCompiler::new(&place, "sleep 0.1");
    let jobs = processors() + 3;
    Crowd::start(&place, RANKS, &cc, &["--jobs", &jobs.to_string()]).end_well();
    assert_eq!((cc.compiles(), cc.most_at_once()), ((KERNELS, KERNELS), jobs), "{:?}", cc.lines());
}

#[test]
fn forced_builds_compile_each_kernel_once() {
    let place = Place::new();
    network(&place, KERNELS);
    let waits = format!("until {}; do sleep 0.01; done", can_make(&place.path("go")));
    let cc = LoggingCompiler::with_behaviors(&place, &[&waits]);
    Build::start(&place, 0, &cc, &[]).end().ended_with(0);
    // A kernel that was compiled before the last build began would be old for that one.
    cc.does(&waits);
    let crowd = Crowd::start(&place, RANKS, &cc, &["--op_compiler_cache_mode", "force"]);
    crowd.await_at_locks();
    std::fs::create_dir(place.path("go")).unwrap();
    let ran = crowd.end_well();
    assert_eq!(cc.compiles(), (2 * KERNELS, KERNELS));
    let count = |outcome: &str| ran.iter().map(|ran| ran.count(outcome)).sum::<u64>();
    let compiled = KERNELS as u64;
    assert_eq!((count("compiled"), count("shared")), (compiled, (RANKS as u64 - 1) * compiled));
}

/// A rank whose directory was deleted restores it from the store, without other ranks.
#[test]
fn a_single_rank_restores_its_directory_without_a_compiler() {
    let place = Place::new();
    network(&place, KERNELS);
    let cc = LoggingCompiler::new(&place, "");
    Crowd::start(&place, 4, &cc, &[]).end_well();
    let dir = place.path("rank_3/kernel_meta");
    std::fs::remove_dir_all(place.path("rank_3")).unwrap();
    let ran = Build::start(&place, 3, &cc, &[]).end().ended_with(0);
    assert_eq!((ran.count("reused"), cc.compiles().0), (KERNELS as u64, KERNELS));
    assert_eq!(intact_pairs(&dir), KERNELS);
    let names = |rank: usize| {
        let files = crate::common::files(&place.path(&format!("rank_{rank}/kernel_meta")));
        files.into_iter().map(|path| path.file_name().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(3), names(2));
}

/// Without RANK_ID all builds write to one directory; they are killed while they write.
#[test]
fn builds_that_are_all_rank_0_leave_a_consistent_directory() {
    // Enough kernels that builds can be killed while they write them.
    const KERNELS: usize = 24;
    let place = Place::new();
    network(&place, KERNELS);
    let cc = LoggingCompiler::new(&place, "");
    let all = |cc: &LoggingCompiler| Crowd((0..RANKS).map(|_| Build::start(&place, 0, cc, &[])).collect());
    all(&cc).end_well();
    let dir = place.path("rank_0/kernel_meta");
    assert_eq!((intact_pairs(&dir), cc.compiles()), (KERNELS, (KERNELS, KERNELS)));

    // Another compiler makes other kernels, which have the same names here.
    let other = cc.with_arguments("-DOTHER");
    Build::start(&place, 0, &other, &[]).end().ended_with(0);
    // Both versions are in the store, so builds only write to the directory, and are killed there.
    let state = |path: &PathBuf| std::fs::metadata(path).map(|found| found.ino()).ok();
    let mut jsons = crate::common::files(&dir);
    jsons.retain(|path| path.extension().is_some_and(|it| it == "json"));
    // A directory is written within two milliseconds, so it takes some rounds to kill a few builds at that moment.
    let (mut amid, mut rounds) = (0, 0);
    while amid < 3 && rounds < 60 {
        let round = rounds;
        rounds += 1;
        let (old, new) = if round % 2 == 0 { (&other, &cc) } else { (&cc, &other) };
        Build::start(&place, 0, old, &[]).end().ended_with(0);
        assert_eq!(intact_pairs(&dir), KERNELS);
        let before: Vec<_> = jsons.iter().map(state).collect();
        let changed = || jsons.iter().zip(&before).filter(|(path, before)| state(path) != **before).count();
        let mut crowd = all(new);
        until("the folder changes", || changed() > round % 12);
        crowd.0.iter().for_each(|build| build.send(Signal::KILL));
        crowd.0.drain(..).for_each(drop);
        let intact = intact_pairs(&dir);
        amid += usize::from(intact < KERNELS || changed() < KERNELS);
    }
    println!("{amid} of {rounds} crowds were killed amid their writing");
    assert!(amid > 0, "{rounds}");
    assert_eq!(cc.compiles().0, 2 * KERNELS);
}

/// Ctrl-C reaches every process of the terminal: each ends cleanly, and finished kernels are stored.
#[test]
fn interrupted_builds_end_cleanly_and_keep_finished_kernels() {
    let place = Place::new();
    network(&place, KERNELS);
    let marker = format!("{}.9753", 30_000 + std::process::id() % 10_000);
    let running = || crate::common::command_lines().iter().filter(|line| line.contains(&marker)).count();
    // Some kernels are compiled, then compilers hang, each with a child.
    let hang = format!("[ $begun -gt 5 ] && {{ sleep {marker} & sleep {marker}; }}");
    let cc = LoggingCompiler::new(&place, &hang);
    let crowd = Crowd::start(&place, RANKS, &cc, &[]);
    until("all compilers hang", || running() == 2 * processors());
    crowd.await_at_locks();
    let ended = cc.lines().iter().filter(|line| !line.begins).count();
    crowd.0.iter().for_each(|build| build.send(Signal::INT));
    for ran in crowd.end() {
        let ran = ran.ended_with(130);
        assert_eq!(ran.json()["interrupted"], true);
        // A kernel that was not tried did not fail.
        ran.says(" not built; run it again to continue");
    }
    until("the compilers and their children are gone", || running() == 0);
    let left = crate::common::files(&place.path("tmp"));
    assert!(left.iter().all(|path| !path.to_string_lossy().contains("/work-")), "{left:?}");
    assert_eq!(place.entries().len(), ended);
    assert!(
        crate::common::files(&place.path("cache"))
            .iter()
            .all(|path| !path.to_string_lossy().contains("/put-"))
    );

    // The next builds compile the rest.
    let (kept, before) = (place.entries().len(), cc.compiles().0);
    cc.does("");
    Crowd::start(&place, RANKS, &cc, &[]).end_well();
    assert_eq!(cc.compiles().0 - before, KERNELS - kept);
}

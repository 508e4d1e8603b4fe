//! Processes with few file descriptors wait, or take turns, and do not fail.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use crate::common::Place;
use crate::common::crowd::{Build, LoggingCompiler, can_make, intact_pairs, network, until};

/// A process that waits for many kernels of other processes does not have a file open for each.
#[test]
fn waiting_for_many_kernels_needs_few_file_descriptors() {
    const KERNELS: usize = 45;
    let place = Place::new();
    network(&place, KERNELS);
    let cc =
        LoggingCompiler::new(&place, &format!("until {}; do sleep 0.05; done", can_make(&place.path("go"))));
    let holder = Build::start(&place, 0, &cc, &["--jobs", &KERNELS.to_string()]);
    cc.await_begun(KERNELS);
    let waiter = Build::start_with_files(40, &place, 1, &cc, &["--jobs", "2"]);
    let open = || std::fs::read_dir(format!("/proc/{}/fd", waiter.id())).map_or(0, Iterator::count);
    // By then it has requested all of them.
    until("the waiter waits", || open() >= 10);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(open() < 30, "{}", open());
    std::fs::create_dir(place.path("go")).unwrap();
    holder.end().ended_with(0);
    let ran = waiter.end().ended_with(0);
    assert_eq!((ran.count("shared"), cc.compiles()), (KERNELS as u64, (KERNELS, KERNELS)), "{ran:?}");
    assert_eq!(ran.json()["warnings"].as_array().unwrap().len(), 0, "{ran:?}");
    assert_eq!(intact_pairs(&place.path("rank_1/kernel_meta")), KERNELS);
}

/// More compiles at once than the file descriptors allow.
#[test]
fn builds_with_few_file_descriptors_take_turns() {
    const KERNELS: usize = 36;
    let place = Place::new();
    network(&place, KERNELS);
    let cc = LoggingCompiler::new(&place, "sleep 0.2");
    let ran = Build::start_with_files(40, &place, 0, &cc, &["--jobs", "24"]).end().ended_with(0);
    assert_eq!((ran.count("compiled"), ran.count("failed")), (KERNELS as u64, 0), "{ran:?}");
    assert_eq!(intact_pairs(&place.path("rank_0/kernel_meta")), KERNELS);
    assert_eq!(place.entries().len(), KERNELS, "{ran:?}");
}

//! The memory use, as the allocator counts it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use libtest_mimic::Trial;
use opkeep_backend::Backend;
use opkeep_testkit::{NullBackend, most_bytes};

use crate::common::{self, Bench, request};

const MB: usize = 1 << 20;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name, run: fn()| {
        Trial::test(name, move || {
            run();
            Ok(())
        })
    };
    vec![
        trial(
            "the_memory_of_requests_is_bounded_as_that_of_kernels",
            the_memory_of_requests_is_bounded_as_that_of_kernels,
        ),
        trial(
            "a_build_of_ten_thousand_kernels_holds_no_more_of_them_than_was_asked_for",
            a_build_of_ten_thousand_kernels_holds_no_more_of_them_than_was_asked_for,
        ),
    ]
}

/// Requests count, too: these have one kernel, and differ in properties that do not change it.
fn the_memory_of_requests_is_bounded_as_that_of_kernels() {
    let bench = Bench::new();
    let backend = Arc::<NullBackend>::default();
    let engine = bench.engine(&backend).with_config(|config| config.memory_bytes = MB);
    let ask = |at: usize| {
        let mut request = request("Square", &[3]);
        request.descriptor.job.ops[0].module_path = Some(format!("/somewhere/{at}/{}", "x".repeat(200)));
        engine.get_or_build(&request).unwrap();
    };
    ask(0);
    let ((), most) = most_bytes(|| (1..8000).for_each(ask));
    println!("{most} bytes at most for a limit of {MB}");
    assert!(most < 2 * MB, "{most}");
    assert_eq!((backend.compiles(), backend.name()), (1, "null"));
}

/// A build keeps the requested kernels; without that setting, it needs little more memory than the plan, whichever of its threads
/// makes most of the kernels.
fn a_build_of_ten_thousand_kernels_holds_no_more_of_them_than_was_asked_for() {
    const KERNELS: i64 = 10_000;
    const EACH: usize = 16 << 10;
    // The plan and the report of a kernel, with all that belongs to them.
    const PLANNED: usize = 2800;
    let requests: Vec<_> = (1..=KERNELS).map(|length| request("Square", &[length])).collect();
    for threads in [1, 4] {
        let bench = Bench::new();
        let backend = Arc::new(NullBackend::new(|_, artifact| Ok(common::padded(artifact, EACH))));
        // Cold, then warm.
        for cache in ["cold", "warm"] {
            let engine = bench.engine(&backend).with_config(|config| {
                config.keep_artifacts = false;
                config.jobs = NonZeroUsize::new(threads);
            });
            let (report, most) = most_bytes(|| engine.build(&requests).unwrap());
            println!("{cache}, {threads} threads: at most {most} bytes, {} a kernel", most / requests.len());
            assert_eq!(report.kernels.len(), requests.len());
            // Each thread has a kernel in progress: its artifact, and its entry.
            assert!(most < requests.len() * PLANNED + threads * EACH * 4, "{cache}, {threads}: {most}");
        }
        assert_eq!(backend.compiles(), requests.len());
    }
}

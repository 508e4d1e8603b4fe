//! Faults of tasks, and of the programs that they run.

use std::time::{Duration, Instant};

use opkeep_testkit::toolkit::{Fault, Rule};
use rustix::process::Signal;

use super::Case;
use super::bench::{Bench, Hanging, wait_until};

pub(super) const CASES: &[Case] = &[
    ("tasks_crash_hang_and_flood", tasks_crash_hang_and_flood),
    ("compilers_crash_hang_and_flood", compilers_crash_hang_and_flood),
    ("delays_are_kept", delays_are_kept),
    ("rules_that_no_program_can_follow_are_refused", rules_that_no_program_can_follow_are_refused),
];

fn tasks_crash_hang_and_flood() {
    let bench = Bench::new();
    let task = bench.task("GatherRows");
    bench.installed.rules(&[Rule::new(Fault::Crash).op("GatherRows").times(1)]).unwrap();
    let ran = bench.compile(&task, &["--debug_dir=crashed"], &[]);
    assert_eq!(ran.code, Some(128 + Signal::SEGV.as_raw()), "bash says so: {ran:?}");
    bench.compiled(&task, &[], &[]);

    bench.installed.rules(&[Rule::new(Fault::Flood { bytes: 1 << 20 })]).unwrap();
    let ran = bench.compile(&task, &[], &[]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stdout.len() > 1_000_000 && ran.stderr.len() > 1_000_000);

    bench.installed.rules(&[Rule::new(Fault::Exit { code: 9 }).soc("Ascend910B1")]).unwrap();
    assert_eq!(bench.compile(&task, &["--debug_dir=left"], &[]).code, Some(9));
}

fn compilers_crash_hang_and_flood() {
    let bench = Bench::new();
    let task = bench.task("GatherRows");
    bench.compiled(&task, &[], &[]);
    let rule = |fault| Rule::new(fault).tool("bisheng").kernel("_10.o").times(1);
    // It is make that sees it, and the linker that fails.
    bench.installed.rules(&[rule(Fault::Crash)]).unwrap();
    let ran = bench.compile(&task, &[], &[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("Segmentation fault"), "{ran:?}");

    bench.installed.rules(&[rule(Fault::Flood { bytes: 1 << 20 })]).unwrap();
    let ran = bench.compile(&task, &[], &[]);
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.stderr.len() > 1_000_000 && ran.stdout.len() < 1000,
        "what make prints on standard output is dropped"
    );

    bench.installed.rules(&[rule(Fault::Hang { deaf: true })]).unwrap();
    bench.installed.forget().unwrap();
    let mut hanging = Hanging::start(&mut bench.project.asc_opc(&task).unwrap());
    wait_until(|| !bench.installed.kernel_compiles().unwrap().is_empty());
    std::thread::sleep(Duration::from_millis(100));
    assert!(!hanging.has_ended());
    hanging.kill();
    assert_eq!(bench.installed.compiles().unwrap()[0].ended, None);
    // The lock of the killed one is still there.
    assert_eq!(bench.compile(&task, &[], &[]).code, Some(1));
    bench.compiled(&task, &["--debug_dir=mine"], &[]);

    let linker =
        Rule::new(Fault::Fail { code: String::new(), message: "no memory".to_owned() }).tool("ld.lld");
    bench.installed.rules(&[linker]).unwrap();
    let ran = bench.compile(&task, &["--debug_dir=mine"], &[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("error: no memory"), "{ran:?}");
}

/// At least as long as they are said to; there is no upper bound.
fn delays_are_kept() {
    let mut bench = Bench::new();
    let task = bench.task("GatherRows");
    let long = Duration::from_millis(300);
    let took = |bench: &Bench| {
        let began = Instant::now();
        bench.compiled(&task, &[], &[]);
        began.elapsed()
    };
    bench.installed.set_times(long, Duration::ZERO).unwrap();
    assert!(took(&bench) >= long);
    bench.installed.set_times(Duration::ZERO, long).unwrap();
    assert!(took(&bench) >= long);
    bench.installed.set_times(Duration::ZERO, Duration::ZERO).unwrap();
    bench.installed.rules(&[Rule::new(Fault::Sleep(long)).tool("bisheng").kernel("_10.o")]).unwrap();
    assert!(took(&bench) >= long);
}

fn rules_that_no_program_can_follow_are_refused() {
    let bench = Bench::new();
    for rule in [
        Rule::new(Fault::NoObject).tool("bisheng"),
        Rule::new(Fault::Crash).tool("bisheng").op("AddCustom"),
        Rule::new(Fault::Crash).tool("bisheng").soc("Ascend910B1"),
        Rule::new(Fault::Crash).tool("bisheng").kernel("a\tb"),
    ] {
        let error = bench.installed.rules(&[rule]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
}

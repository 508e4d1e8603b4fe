//! Each fault of the stand-in happens, and only to the selected compiles.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Stdio};
use std::time::Duration;

use opkeep_testkit::toolkit::{Fault, Rule};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use serde_json::{Value, json};

use super::Case;
use super::bench::{Bench, Run, attention, good_conv2d, reduce_sum, report, run, square};

pub(crate) const CASES: &[Case] = &[
    ("rules_are_for_whom_they_are_for", whom),
    ("rules_come_from_the_environment_too", variable),
    ("crashes_leave_a_line_in_the_log", crashes),
    ("hanging_compiles_are_ended_by_force_only", hangs),
    ("a_remaining_child_keeps_running", left),
    ("floods_are_not_all_text", floods),
    ("exit_codes_are_the_requested_ones", exits),
    ("failures_are_reported_with_code_and_text", failures),
    ("the_written_files_may_be_wrong", wrong),
    ("without_output_the_old_files_stay", nothing),
    ("a_compiler_that_fails_is_tried_thrice", retries),
    ("a_mixed_kernel_may_be_two", split),
    ("times_are_kept", times),
];

const KERNEL: &str = "Square_0123abcd";

fn compile(bench: &Bench) -> Run {
    bench.compile("Ascend910B1", &square(), &[])
}

fn whom() {
    let bench = Bench::new();
    let fail = || Rule::new(Fault::Fail { code: "E99999".to_owned(), message: "asked for".to_owned() });
    let fails = |rule: Rule, soc: &str, params: &Value| {
        bench.installed.rules(&[rule]).unwrap();
        bench.compile(soc, params, &[]).stdout.contains("E99999")
    };
    assert!(fails(fail(), "Ascend910B1", &square()));
    assert!(fails(fail().op("Square").kernel("0123").soc("Ascend910B1"), "Ascend910B1", &square()));
    assert!(!fails(fail().op("Relu"), "Ascend910B1", &square()));
    assert!(!fails(fail().kernel("ffff"), "Ascend910B1", &square()));
    assert!(!fails(fail().soc("Ascend910A"), "Ascend910B1", &square()));
    bench.installed.rules(&[fail().times(2)]).unwrap();
    let ends: Vec<bool> = (0..3).map(|_| compile(&bench).stdout.contains("E99999")).collect();
    assert_eq!(ends, [true, true, false]);
}

fn variable() {
    let bench = Bench::new();
    let rules = json!([{"id": "mine", "op": "Square", "fault": {"kind": "exit", "code": 9}}]);
    let mut command = bench.command(&bench.installed.tool("opc"));
    command.args(bench.arguments("Ascend910B1", &square())).env("OPKEEP_STANDIN_RULES", rules.to_string());
    assert_eq!(run(&mut command).code, Some(9));
}

fn crashes() {
    let bench = Bench::new();
    bench.installed.rules(&[Rule::new(Fault::Crash).times(1)]).unwrap();
    // The shell that runs it reports the signal in its exit code.
    assert_eq!(compile(&bench).code, Some(128 + Signal::SEGV.as_raw()));
    // The lock file of the dead process still exists.
    assert!(compile(&bench).stdout.contains("Another process is using this dir"));
    bench.compiled("Ascend910B1", &square(), &["--debug_dir=other"]);
    let [crashed, well] = bench.installed.compiles().unwrap().try_into().unwrap();
    assert_eq!((crashed.ended, crashed.failed), (None, false));
    assert!(well.ended.unwrap() > well.begun && well.begun > crashed.begun);
    assert_eq!(
        (well.op.as_str(), well.kernel.as_str(), well.soc.as_str()),
        ("Square", KERNEL, "Ascend910B1")
    );
    bench.installed.forget().unwrap();
    assert_eq!(bench.installed.compiles().unwrap(), []);
}

/// Starts `opc` in its own process group, and waits until it compiles.
fn start(bench: &Bench) -> (Child, Pid) {
    let mut command = bench.command(&bench.installed.tool("opc"));
    command.args(bench.arguments("Ascend910B1", &square())).stdout(Stdio::null()).process_group(0);
    let mut child = command.spawn().unwrap();
    let compiling = loop {
        assert_eq!(child.try_wait().unwrap(), None);
        if let Some(compile) = bench.installed.compiles().unwrap().pop() {
            break compile.pid;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    (child, Pid::from_raw(compiling.try_into().unwrap()).unwrap())
}

/// Kills the process group that `start` created.
fn end(mut child: Child) {
    kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
}

/// Waits until `holds`, for as long as the child runs and up to a limit.
fn wait(child: &mut Child, holds: impl Fn() -> bool) {
    for _ in 0..12_000 {
        assert_eq!(child.try_wait().unwrap(), None);
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process_group(Pid::from_child(child), Signal::KILL).unwrap();
    unreachable!("what is waited for does not happen");
}

/// Whether a process ignores SIGTERM.
fn is_deaf(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap_or("0");
    u64::from_str_radix(ignored, 16).unwrap() & 1 << (Signal::TERM.as_raw() - 1) != 0
}

/// Whether the compiler of a process has stopped itself.
fn has_stopped(pid: i32) -> bool {
    let read =
        |pid: i32, name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let children = read(pid, &format!("task/{pid}/children"));
    let is_stopped = |pid: &str| read(pid.parse().unwrap(), "status").contains("State:\tT");
    children.split_whitespace().any(is_stopped)
}

fn hangs() {
    let bench = Bench::new();
    bench.installed.rules(&[Rule::new(Fault::Hang { deaf: true })]).unwrap();
    let (mut child, pid) = start(&bench);
    wait(&mut child, || is_deaf(pid));
    kill_process(pid, Signal::TERM).unwrap();
    test_kill_process(pid).unwrap();
    end(child);

    std::fs::remove_dir_all(bench.work().join(format!("kernel_meta_{KERNEL}"))).unwrap();
    bench.installed.rules(&[Rule::new(Fault::CompilerHangs)]).unwrap();
    bench.installed.forget().unwrap();
    let (mut child, pid) = start(&bench);
    wait(&mut child, || has_stopped(pid.as_raw_pid()));
    end(child);
    assert_eq!(bench.installed.compiles().unwrap()[0].ended, None);
}

fn left() {
    let bench = Bench::new();
    for own_session in [false, true] {
        bench.installed.rules(&[Rule::new(Fault::Leave { seconds: 600, own_session }).times(1)]).unwrap();
        // `output` would not return, because a leftover process holds the pipe open.
        let mut command = bench.command(&bench.installed.tool("opc"));
        command.args(bench.arguments("Ascend910B1", &square())).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.process_group(0).status().unwrap().success());
        let pid = bench.installed.left().unwrap().pop().unwrap();
        let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        test_kill_process(pid).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
    assert!(bench.pair(KERNEL).is_some());
}

fn floods() {
    let bench = Bench::new();
    bench.installed.rules(&[Rule::new(Fault::Flood { bytes: 1 << 20 })]).unwrap();
    let mut command = bench.command(&bench.installed.tool("opc"));
    let output = command.args(bench.arguments("Ascend910B1", &square())).output().unwrap();
    for bytes in [&output.stdout, &output.stderr] {
        assert!(bytes.len() > 1_000_000 && std::str::from_utf8(bytes).is_err());
    }
    assert!(bench.pair(KERNEL).is_some());
}

fn exits() {
    let bench = Bench::new();
    bench.installed.rules(&[Rule::new(Fault::Exit { code: 3 })]).unwrap();
    assert_eq!(compile(&bench).code, Some(3));
    assert!(bench.pair(KERNEL).is_none());
    bench.installed.rules(&[Rule::new(Fault::ExitAfter { code: 4 })]).unwrap();
    let run = bench.compile("Ascend910B1", &square(), &["--debug_dir=other"]);
    assert_eq!(run.code, Some(4));
    assert!(bench.pair(KERNEL).is_some());
}

fn failures() {
    let bench = Bench::new();
    let fault = Fault::Fail { code: "E80012".to_owned(), message: "too many dimensions".to_owned() };
    bench.installed.rules(&[Rule::new(fault)]).unwrap();
    let run = compile(&bench);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    for text in [
        "'errCode': 'E80012'",
        "too many dimensions",
        "Opc tool compile failed.",
        "kernelName: Square_0123abcd.",
    ] {
        assert!(run.stdout.contains(text), "{}", run.stdout);
    }
    assert!(bench.pair(KERNEL).is_none() && bench.installed.compiles().unwrap()[0].failed);
}

fn wrong() {
    let bench = Bench::new();
    let codes = |fault: Fault| {
        let _ = std::fs::remove_dir_all(bench.work().join("output"));
        bench.installed.rules(&[Rule::new(fault)]).unwrap();
        assert_eq!(compile(&bench).code, Some(0));
        let (json, object) = bench.pair(KERNEL)?;
        let report = report("Ascend910B1", &json, &object);
        Some(report.findings.iter().map(|finding| finding.code().to_string()).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(codes(Fault::Sleep(Duration::ZERO)).as_deref(), Some(""));
    assert_eq!([codes(Fault::NoObject), codes(Fault::NoJson)], [None, None]);
    assert_eq!(codes(Fault::OtherDigest).as_deref(), Some("OPV005"));
    assert_eq!(codes(Fault::NoElf).as_deref(), Some("OPV020"));
    assert!(codes(Fault::OtherMachine).unwrap().starts_with("OPV023"));
    assert!(codes(Fault::OtherKernel).unwrap().contains("OPV050"));
    assert!(codes(Fault::CutObject { bytes: 1000 }).unwrap().contains("OPV005"));
    assert_eq!(codes(Fault::CutJson { bytes: 100 }).as_deref(), Some("OPV001"));
    // The fault happens once.
    bench.installed.rules(&[]).unwrap();
    bench.compiled("Ascend910B1", &square(), &[]);
}

fn nothing() {
    let bench = Bench::new();
    let (object, _) = bench.compiled("Ascend910B1", &square(), &[]);
    bench.installed.rules(&[Rule::new(Fault::Nothing)]).unwrap();
    let run = bench.compile("Ascend910B1", &square(), &["--op_debug_config=oom"]);
    assert_eq!(run.code, Some(0));
    assert!(bench.pair(KERNEL).unwrap().1 == object);
}

fn retries() {
    let bench = Bench::new();
    let compiles = |attempts| {
        let _ = std::fs::remove_dir_all(bench.work().join("output"));
        bench.installed.rules(&[Rule::new(Fault::CompilerFails { attempts })]).unwrap();
        let run = compile(&bench);
        assert_eq!(run.code, Some(0));
        assert_eq!(
            run.stdout.contains("run cmd compile error: "),
            bench.pair(KERNEL).is_none(),
            "{}",
            run.stdout
        );
        bench.pair(KERNEL).is_some()
    };
    assert_eq!([1, 2, 3].map(compiles), [true, true, false]);
    bench.installed.rules(&[Rule::new(Fault::CompilerCrashes)]).unwrap();
    let run = compile(&bench);
    assert!(
        run.stdout.contains("run cmd compile error: ") && run.stdout.contains("exit status -11"),
        "{}",
        run.stdout
    );
}

fn split() {
    let bench = Bench::new();
    bench.installed.rules(&[Rule::new(Fault::SplitMix).op("FlashAttentionScore")]).unwrap();
    assert_eq!(bench.compile("Ascend910B1", &attention(16), &[]).code, Some(0));
    let master = std::fs::read(bench.output("FlashAttentionScore_0123abcd.json")).unwrap();
    let master: Value = serde_json::from_slice(&master).unwrap();
    assert!(!bench.output("FlashAttentionScore_0123abcd.o").exists());
    let parts: Vec<&str> = master["jsonList"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["jsonFileName"].as_str().unwrap())
        .collect();
    assert_eq!(
        parts,
        ["FlashAttentionScore_0123abcd_mix_aic.json", "FlashAttentionScore_0123abcd_mix_aiv.json"]
    );
    for part in parts {
        let (json, object) = bench.pair(part.trim_end_matches(".json")).unwrap();
        assert_eq!(report("Ascend910B1", &json, &object).findings, []);
        assert!(String::from_utf8(json).unwrap().contains("FFTS_BINARY_MAGIC_ELF_MIX_AI"));
    }
}

/// Checks that they take at least this long; there is no upper bound.
fn times() {
    let mut bench = Bench::new();
    let (long, short) = (Duration::from_millis(300), Duration::ZERO);
    bench.installed.set_times(long, short).unwrap();
    let began = std::time::Instant::now();
    bench.opc(&["--help"]);
    assert!(began.elapsed() >= long);
    bench.installed.set_times(short, long).unwrap();
    for params in [square(), good_conv2d(), reduce_sum()] {
        bench.compiled("Ascend910B1", &params, &[]);
    }
    for compile in bench.installed.compiles().unwrap() {
        let took = Duration::from_nanos(compile.ended.unwrap() - compile.begun);
        assert!(took >= long - Duration::from_millis(1), "{took:?}");
    }
}

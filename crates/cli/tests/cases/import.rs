//! Importing kernels and reusing them, by the command and with the stand-in toolkit. Tests that build are ignored where there
//! is no Python.

#![expect(clippy::unwrap_used, reason = "helpers of tests are not themselves marked as tests")]
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{Place, Ran};
use libtest_mimic::{Failed, Trial};
use opkeep_descriptor::Generation;
use opkeep_testkit::caches::{Rank, age, cann_kernel};
use opkeep_testkit::toolkit::{self, Installation, Toolkit};
use serde_json::Value;

pub(crate) fn trials() -> Vec<Trial> {
    let has_python = toolkit::python().is_some();
    let building: &[(&str, fn())] = &[
        ("an_imported_kernel_is_reused_if_trusted", reused),
        ("no_other_rank_gets_it", by_no_other_rank),
        ("modes_hold", modes),
        ("explain_reports_it", explained),
        ("without_a_compiler_it_is_all_there_is", without_a_compiler),
    ];
    let others: &[(&str, fn())] = &[
        ("imports_are_reported", reported),
        ("lines_and_sum_have_the_same_counts", summed),
        ("reasons_and_exit_codes", reasons),
        ("verify_inspect_stats_gc_and_repair_know_it", known),
        ("processes_at_once_and_again", at_once),
        ("an_interrupt_keeps_what_is_there", interrupted),
    ];
    let trial = |ignored: bool| {
        move |(name, run): &(&'static str, fn())| {
            let run = *run;
            let trial = Trial::test(*name, move || {
                run();
                Ok::<(), Failed>(())
            });
            trial.with_ignored_flag(ignored)
        }
    };
    building.iter().map(trial(!has_python)).chain(others.iter().map(trial(false))).collect()
}

const SOC: &str = "Ascend910A";

/// The directories of a framework's run on several ranks.
struct Run {
    place: Place,
}

impl Run {
    /// Rank 0 with kernels of the lengths from 1 to `lengths`.
    fn with_squares(lengths: u32) -> Self {
        let run = Self { place: Place::new() };
        (1..=lengths).for_each(|length| run.keep(&Rank::new(0), length));
        run
    }

    fn base(&self) -> PathBuf {
        self.place.path("run")
    }

    fn keep(&self, rank: &Rank, length: u32) {
        rank.square(length).write(&rank.dir(&self.base())).unwrap();
    }

    fn file(&self, length: u32, ending: &str) -> PathBuf {
        let rank = Rank::new(0);
        rank.dir(&self.base()).join(format!("{}.{ending}", rank.square(length).stem))
    }

    fn import(&self, more: &[&str]) -> Ran {
        self.place.run(&[&["import", "run", "--format", "json"], more].concat())
    }

    fn text(&self, args: &[&str]) -> String {
        self.place.run(args).ended_with(0).stdout
    }
}

/// A run, and a toolkit.
struct Bench {
    run: Run,
    installed: Installation,
}

impl Bench {
    /// With the kernel of one length imported.
    fn new() -> Self {
        let run = Run::with_squares(1);
        let installed = Toolkit::new().write(&run.place.path("Ascend")).unwrap();
        let bench = Self { run, installed };
        assert_eq!(bench.run.import(&[]).ended_with(0).count("imported"), 1);
        bench
    }

    /// A rank's descriptor as its framework writes it, changed.
    fn descriptor(&self, name: &str, rank: &Rank, change: impl FnOnce(&mut Value)) -> String {
        let mut info: Value = serde_json::from_slice(&rank.square(1).info.unwrap()).unwrap();
        change(&mut info);
        let path = self.run.place.write(&format!("jobs/{name}.info"), info.to_string());
        path.to_str().unwrap().to_owned()
    }

    fn asked(&self) -> String {
        self.descriptor("same", &Rank::new(5), |_| {})
    }

    fn opkeep(&self, args: &[&str]) -> Ran {
        let python = toolkit::python().unwrap().to_str().unwrap().to_owned();
        let root = self.installed.root().to_str().unwrap();
        self.run.place.run_with(args, &[("ASCEND_HOME_PATH", root), ("HI_PYTHON", &python), ("RANK_ID", "5")])
    }

    /// The outcome of one descriptor, and whether it used an imported kernel. The toolkit's own log must agree.
    fn build(&self, descriptor: &str, more: &[&str]) -> (String, bool) {
        let before = self.compiles();
        let args = ["build", descriptor, "--format", "json"];
        let target: &[&str] = if more.contains(&"--target") { &[] } else { &["--target", SOC] };
        let ran = self.opkeep(&[&args, target, more].concat());
        let result = ran.json()["results"][0].clone();
        let outcome = result["outcome"].as_str().unwrap().to_owned();
        let compiled = usize::from(matches!(&*outcome, "compiled" | "bypassed"));
        assert_eq!(self.compiles() - before, compiled, "{ran:?}");
        (outcome, !result["imported"].is_null())
    }

    fn compiles(&self) -> usize {
        self.installed.compiles().unwrap().len()
    }
}

fn is(outcome: &str, imported: bool) -> (String, bool) {
    (outcome.to_owned(), imported)
}

const TRUST: &str = "--trust-imported";

fn reused() {
    let bench = Bench::new();
    let (asked, foreign) = (bench.asked(), Rank::new(0).square(1));
    let ran = bench.opkeep(&["build", &asked, "--target", SOC, TRUST, "--format", "json"]).ended_with(0);
    let json = ran.json();
    let result = &json["results"][0];
    assert_eq!((json["reused"].as_u64(), result["outcome"].as_str()), (Some(1), Some("reused")), "{ran:?}");
    let imported = &result["imported"];
    assert!(imported["folder"].as_str().unwrap().ends_with("run/rank_0/kernel_meta"), "{ran:?}");
    assert_eq!(imported["name"].as_str(), Some(foreign.stem.as_str()));
    assert!(imported["toolchain"].is_null() && result["reason"].as_str().unwrap().contains("imported from"));
    // In the directory of rank 5, with the bytes of rank 0.
    let view = bench.run.place.path("rank_5/kernel_meta");
    let own = Rank::new(5).square(1);
    let file = |ending: &str| std::fs::read(view.join(format!("{}.{ending}", own.stem))).unwrap();
    assert_eq!((file("json"), file("o")), (foreign.json, foreign.object));
    let text = bench.opkeep(&["build", &asked, "--target", SOC, TRUST]).ended_with(0).stdout;
    assert!(text.contains("imported from") && text.contains("their toolchain is not known"), "{text}");
    for generation in [Generation::R1_5, Generation::R1_6, Generation::R2_1] {
        let rank = Rank { generation, ..Rank::new(3) };
        let other = bench.descriptor("other", &rank, |_| {});
        assert_eq!(bench.build(&other, &[TRUST]), is("reused", true), "{generation}");
    }
    assert_eq!(bench.compiles(), 0);
}

fn by_no_other_rank() {
    let bench = Bench::new();
    let asked = bench.asked();
    assert_eq!(bench.build(&asked, &["--no-kernel-meta"]), is("compiled", false));
    assert_eq!(bench.build(&asked, &[TRUST]), is("reused", false));
    bench.run.place.run(&["clear"]).ended_with(0);
    bench.run.import(&[]).ended_with(0);
    let attrs = bench.descriptor("attrs", &Rank::new(5), |info| {
        info["job_content"]["op_list"][1]["int64mode"] = true.into();
    });
    assert_eq!(bench.build(&attrs, &[TRUST]), is("compiled", false));
    let named = bench.descriptor("node", &Rank::new(5), |info| {
        info["job_content"]["full_name"] = "Default/another/Square-op7".into();
    });
    assert_eq!(bench.build(&named, &[TRUST]), is("reused", true));
    let option = ["--option", "impl_mode=high_precision", TRUST];
    assert_eq!(bench.build(&asked, &option), is("compiled", false));
    assert_eq!(bench.build(&asked, &["--op_debug_level", "1", TRUST]), is("bypassed", false));
    assert_eq!(bench.build(&asked, &["--target", "Ascend910B1", TRUST]), is("compiled", false));
    assert_eq!(bench.build(&asked, &["--op_debug_level", "0", TRUST]), is("reused", true));
}

fn modes() {
    let bench = Bench::new();
    let asked = bench.asked();
    let with = |mode: &str, trust: bool| {
        let mode = format!("--op_compiler_cache_mode={mode}");
        let trust: &[&str] = if trust { &[TRUST] } else { &[] };
        bench.build(&asked, &[&[mode.as_str()], trust].concat())
    };
    assert_eq!(with("require", true), is("reused", true));
    assert_eq!(with("require", false), is("failed", false));
    assert_eq!(with("read-only", true), is("reused", true));
    assert_eq!(with("read-only", false), is("compiled", false));
    assert_eq!(with("disable", true), is("compiled", false));
    assert_eq!(with("enable", true), is("reused", true));
    assert_eq!(with("force", true), is("compiled", false));
    assert_eq!(with("enable", true), is("reused", false));
}

fn explained() {
    let bench = Bench::new();
    let asked = bench.asked();
    let explain = |more: &[&str]| {
        bench.opkeep(&[&["explain", &asked, "--target", SOC], more].concat()).ended_with(0).stdout
    };
    let plain = explain(&[]);
    assert!(plain.contains("an imported kernel matches: --trust-imported would reuse it"), "{plain}");
    assert!(
        plain.contains("0 hit, 1 miss") && plain.contains("its toolchain and its sources are unknown"),
        "{plain}"
    );
    let trusting = explain(&[TRUST]);
    assert!(trusting.contains("1 hit, 0 miss") && trusting.contains("it is imported from"), "{trusting}");
    let json: Value = serde_json::from_str(&explain(&["--format", "json"])).unwrap();
    assert!(json["kernels"][0]["imported"]["name"].is_string() && json["kernels"][0]["outcome"] == "miss");
    assert_eq!(bench.compiles(), 0);
}

/// An operator that this toolkit does not have.
fn without_a_compiler() {
    let bench = Bench::new();
    let asked = bench.asked();
    for file in ["dynamic/square.py", "square.py"] {
        std::fs::remove_file(bench.installed.impl_file(file)).unwrap();
    }
    assert_eq!(bench.build(&asked, &[]).0, "failed");
    assert_eq!(bench.build(&asked, &[TRUST]), is("reused", true));
}

fn reported() {
    let run = Run::with_squares(2);
    let json = run.import(&["--dry-run"]).ended_with(0).json();
    assert_eq!((json["imported"].as_u64(), json["dry_run"].as_bool()), (Some(2), Some(true)));
    assert!(!run.place.path("cache").exists());
    let text = run.text(&["import", "run", "--dry-run"]);
    assert!(text.contains("2 kernels would be imported"), "{text}");
    let json = run.import(&[]).ended_with(0).json();
    let cache = &json["caches"][0];
    assert_eq!((cache["kind"].as_str(), cache["rank"].as_str()), (Some("mindspore"), Some("0")), "{json}");
    let names: Vec<_> =
        cache["imported"].as_array().unwrap().iter().map(|kernel| &kernel["target"]).collect();
    assert_eq!(names, [SOC, SOC]);
    assert_eq!(run.place.entries().len(), 2);
    let text = run.text(&["import", "run"]);
    assert!(text.contains("0 kernels imported") && text.contains("2 stored already"), "{text}");
    assert!(text.contains("opkeep build --trust-imported"), "{text}");
    // The framework compiles one again. The time of an import is stored in seconds.
    std::thread::sleep(Duration::from_secs(2));
    let now = std::time::SystemTime::now();
    Rank::new(0).square_of(1, 900).write(&Rank::new(0).dir(&run.base())).unwrap();
    for ending in ["info", "o", "json"] {
        let file = std::fs::File::open(run.file(1, ending)).unwrap();
        file.set_times(std::fs::FileTimes::new().set_modified(now)).unwrap();
    }
    let text = run.text(&["import", "run", "--dry-run"]);
    assert!(
        text.contains("0 kernels would be imported, 1 would replace older ones (")
            && text.contains(" KiB), 1 stored already"),
        "{text}"
    );
    let text = run.text(&["import", "run"]);
    assert!(text.contains("0 imported, 1 in place of older ones, 1 stored already, 0 skipped"), "{text}");
    let json = run.import(&[]).ended_with(0).json();
    assert_eq!((json["renewed"].as_u64(), json["already"].as_u64()), (Some(0), Some(2)), "{json}");
}

/// The kernels of the second rank are of the same jobs, and have other bytes.
fn summed() {
    let run = Run::with_squares(2);
    (1..=2).for_each(|length| run.keep(&Rank::new(1), length));
    let text = run.text(&["import", "run"]);
    let other = "0 stored already, 2 of jobs that were stored with other bytes, 0 skipped\n";
    assert!(text.contains("  2 imported, 0 stored already, 0 skipped\n"), "{text}");
    assert!(text.contains(&format!("  0 imported, {other}")), "{text}");
    assert!(text.contains("2 kernels imported (") && text.contains(&format!("), {other}")), "{text}");
    assert!(text.ends_with("on hosts with the toolkit for their chip\n"), "{text}");
}

fn cut(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    age(path).unwrap();
}

fn reasons() {
    let run = Run::with_squares(4);
    // A missing descriptor is no error; a damaged kernel is one.
    std::fs::remove_file(run.file(1, "info")).unwrap();
    cann_kernel(SOC, 1).write(&run.base().join("kernel_cache").join(SOC)).unwrap();
    let ran = run.import(&["--dry-run"]).ended_with(0);
    assert_eq!(ran.json()["passed_over"]["no-descriptor"], 1, "{ran:?}");
    cut(&run.file(2, "o"));
    let now = std::fs::File::open(run.file(3, "info")).unwrap();
    now.set_times(std::fs::FileTimes::new().set_modified(std::time::SystemTime::now())).unwrap();
    let ran = run.import(&[]).ended_with(1);
    let json = ran.json();
    assert_eq!((json["imported"].as_u64(), json["problems"].as_u64()), (Some(1), Some(1)), "{ran:?}");
    assert_eq!(json["passed_over"].to_string(), r#"{"begun-anew":1,"damaged":1,"no-descriptor":1}"#);
    let ran = run.place.run(&["import", "run"]).ended_with(1);
    for said in [
        "CANN's kernel_cache has no descriptors",
        "no .info beside it",
        "newer than the kernel",
        "sha256",
        "3 skipped (1 damaged, 1 older than the descriptor, 1 without a descriptor)",
    ] {
        assert!(ran.stdout.contains(said), "{said}: {ran:?}");
    }
    // A missing or unreadable directory.
    std::fs::create_dir(run.place.path("empty")).unwrap();
    let ran = run.place.run(&["import", "empty"]).ended_with(2);
    assert!(ran.stdout.contains("there is no cache of a framework"), "{ran:?}");
    run.place.run(&["import", "nowhere"]).ended_with(2).says("nowhere");
    run.place.run(&["import", "nowhere", "run"]).ended_with(2).says("nowhere");
    run.place.run(&["import"]).ended_with(2).says("DIR");
    std::fs::write(run.place.path("file"), "").unwrap();
    run.place
        .run(&["import", "run", "--op_compiler_cache_dir", "file"])
        .ended_with(2)
        .says("not a directory");
}

fn known() {
    let run = Run::with_squares(2);
    run.import(&[]).ended_with(0);
    run.place.run(&["verify"]).ended_with(0);
    let entry = run.place.entries().remove(0);
    let entry = entry.to_str().unwrap();
    let text = run.text(&["inspect", entry]);
    for said in ["entry provenance", "imported folder", "run/rank_0/kernel_meta", "toolchain", "not known"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let stats = run.text(&["stats"]);
    assert!(stats.contains(SOC) && stats.contains("2 kernels"), "{stats}");
    run.text(&["gc", "--dry-run", "--older-than", "0s"]);
    cut(Path::new(entry));
    run.place.run(&["verify"]).ended_with(1);
    run.place.run(&["repair"]).ended_with(0);
    run.place.run(&["verify"]).ended_with(0);
    assert_eq!(run.import(&[]).ended_with(0).count("imported"), 1);
    run.text(&["clear"]);
    assert_eq!(run.import(&[]).ended_with(0).count("imported"), 2);
}

fn at_once() {
    let run = Run::with_squares(30);
    let start = || {
        let mut command = run.place.command(&["import", "run", "--format", "json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..3).map(|_| start()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(output.status.success(), "{json}");
        assert_eq!(json["imported"].as_u64().unwrap() + json["already"].as_u64().unwrap(), 30);
    }
    assert_eq!(run.place.entries().len(), 30);
    run.place.run(&["verify"]).ended_with(0);
    assert_eq!(run.import(&[]).ended_with(0).count("already"), 30);
}

fn interrupted() {
    const KERNELS: u32 = 1000;
    let run = Run::with_squares(KERNELS);
    let mut command = run.place.command(&["import", "run", "--format", "json", "--jobs", "1"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    while run.place.entries().is_empty() {
        assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "nothing was imported");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (imported, left) = (json["imported"].as_u64().unwrap(), json["left"].as_u64().unwrap());
    assert!(imported > 0 && left > 0 && imported + left == u64::from(KERNELS), "{imported} {left}");
    assert_eq!(run.place.entries().len() as u64, imported);
    let json = run.import(&[]).ended_with(0).json();
    assert_eq!((json["imported"].as_u64(), json["already"].as_u64()), (Some(left), Some(imported)));
}

//! Building for Ascend chips with the stand-in toolkit. Everything is ignored where there is no Python.

#![expect(clippy::unwrap_used, reason = "helpers of tests are not themselves marked as tests")]
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{Place, Ran, SQUARE};
use libtest_mimic::{Failed, Trial};
use opkeep_testkit::toolkit::{self, Fault, Installation, Rule, Toolkit};
use opkeep_testkit::{corpus, is_turn};

pub(crate) fn trials() -> Vec<Trial> {
    let has_python = toolkit::python().is_some();
    let cases: &[(&str, fn())] = &[
        ("a_descriptor_is_built_cold_then_warm", cold_then_warm),
        ("one_operator_that_is_edited_is_built_anew", edited),
        ("an_upgrade_builds_all_anew", upgraded),
        ("one_flag_swaps_the_target", swapped),
        ("failures_say_what_the_vendor_says", failing),
        ("options_are_checked_and_count", options),
        ("chips_are_known_by_their_names", chips),
        ("a_network_is_built_cold_then_warm_by_one_flag", network),
        ("an_interrupt_ends_an_operator_query", interrupted),
    ];
    let trial = |(name, run): &(&'static str, fn())| {
        let run = *run;
        Trial::test(*name, move || {
            run();
            Ok::<(), Failed>(())
        })
        .with_ignored_flag(!has_python)
    };
    let resnet = Trial::test("resnet_50_is_built_cold_then_warm", || {
        resnet();
        Ok::<(), Failed>(())
    });
    // The same as of the small network, for one commit of four.
    let has_turn = has_python && corpus::directory().is_some() && is_turn(1, 4);
    let resnet = resnet.with_ignored_flag(!has_turn);
    cases.iter().map(trial).chain([resnet]).collect()
}

struct Bench {
    place: Place,
    installed: Installation,
    descriptors: Vec<String>,
}

impl Bench {
    /// A toolkit, and descriptors of two operators.
    fn new() -> Self {
        let place = Place::new();
        let installed = Toolkit::new().write(&place.path("Ascend")).unwrap();
        let text = std::fs::read_to_string(SQUARE).unwrap();
        let dir = place.path("jobs");
        std::fs::create_dir(&dir).unwrap();
        let write = |name: &str, text: String| {
            let path = dir.join(format!("{name}.info"));
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let relu = text.replace("Square", "Relu").replace("square", "relu");
        let descriptors = vec![write("square", text), write("relu", relu)];
        Self { place, installed, descriptors }
    }

    fn run(&self, verb: &str, more: &[&str]) -> Ran {
        let mut args = vec![verb, "--target", "Ascend910B1", "--format", "json"];
        args.extend(self.descriptors.iter().map(String::as_str));
        args.extend_from_slice(more);
        self.place.run_with(&args, &self.environment())
    }

    fn environment(&self) -> [(&str, &str); 2] {
        let python = Box::leak(toolkit::python().unwrap().to_str().unwrap().to_owned().into_boxed_str());
        [("ASCEND_HOME_PATH", self.installed.root().to_str().unwrap()), ("HI_PYTHON", python)]
    }

    /// Builds. Returns the number of compiled kernels, by the report and by the toolkit's own log.
    fn build(&self, more: &[&str]) -> u64 {
        let before = self.compiles();
        let ran = self.run("build", more).ended_with(0);
        let compiled = ran.count("compiled");
        assert_eq!(self.compiles() - before, compiled as usize, "{ran:?}");
        assert_eq!(ran.count("compiled") + ran.count("reused"), 2, "{ran:?}");
        compiled
    }

    fn compiles(&self) -> usize {
        self.installed.compiles().unwrap().len()
    }
}

fn cold_then_warm() {
    let bench = Bench::new();
    assert_eq!(bench.build(&[]), 2);
    assert_eq!(bench.build(&[]), 0);
    // Kernels are the same whichever process compiled them.
    assert_eq!(bench.build(&["--cann-driver", "process"]), 0);
    let objects = || -> Vec<Vec<u8>> {
        let view = bench.place.path("rank_0/kernel_meta");
        let mut paths: Vec<_> = std::fs::read_dir(view).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let objects = paths.iter().filter(|path| path.extension().is_some_and(|end| end == "o"));
        objects.map(|path| std::fs::read(path).unwrap()).collect()
    };
    let by_workers = objects();
    let force = ["--cann-driver", "process", "--op_compiler_cache_mode", "force"];
    assert_eq!(bench.build(&force), 2);
    assert_eq!((by_workers.len(), by_workers), (2, objects()));
    // The new store is valid by all rules for such kernels.
    bench.place.run(&["verify"]).ended_with(0);
}

fn edited() {
    let bench = Bench::new();
    bench.build(&[]);
    for file in ["dynamic/square.py", "square.py"] {
        bench.installed.append(&bench.installed.impl_file(file), "\n# edited\n").unwrap();
        let ran = bench.run("explain", &[]).ended_with(0);
        assert!(ran.stdout.contains(&format!("impl/{file}")), "{ran:?}");
        assert_eq!(bench.build(&[]), 1, "{file}");
        assert_eq!(bench.installed.compiles().unwrap().last().unwrap().op, "Square");
    }
}

fn upgraded() {
    let mut bench = Bench::new();
    bench.build(&[]);
    bench.installed.upgrade("7.8.0.1.1", "20260101_000000000").unwrap();
    let ran = bench.run("explain", &[]).ended_with(0);
    assert!(ran.stdout.contains("7.7.0.1.238") && ran.stdout.contains("7.8.0.1.1"), "{ran:?}");
    assert_eq!(bench.build(&[]), 2);
    assert_eq!(bench.build(&[]), 0);
}

fn swapped() {
    let bench = Bench::new();
    assert_eq!(bench.build(&[]), 2);
    let args = ["build", "--target", "cpu", "--format", "json", bench.descriptors[0].as_str()];
    let ran = bench.place.run_with(&args, &bench.environment()).ended_with(0);
    assert_eq!((ran.count("compiled"), ran.json()["backend"].as_str()), (1, Some("cpu")), "{ran:?}");
    assert_eq!(bench.build(&[]), 0);
}

fn failing() {
    let bench = Bench::new();
    let fail = Fault::Fail { code: "E80012".to_owned(), message: "dimensions of `x`".to_owned() };
    bench.installed.rules(&[Rule::new(fail).op("Relu")]).unwrap();
    let ran = bench.run("build", &[]).ended_with(1);
    assert_eq!((ran.count("compiled"), ran.count("failed")), (1, 1), "{ran:?}");
    assert!(ran.stdout.contains("E80012") && ran.stdout.contains("dimensions of `x`"), "{ran:?}");
    bench.installed.rules(&[Rule::new(Fault::OtherDigest)]).unwrap();
    let ran = bench.run("build", &[]).ended_with(1);
    assert_eq!((ran.count("reused"), ran.count("failed")), (1, 1), "{ran:?}");
    assert!(ran.stdout.contains("sha256"), "{ran:?}");
    bench.installed.rules(&[]).unwrap();
    assert_eq!(bench.build(&[]), 1);
}

fn options() {
    let bench = Bench::new();
    assert_eq!(bench.build(&["--option", "deterministic=false"]), 2);
    assert_eq!(bench.build(&[]), 0);
    assert_eq!(bench.build(&["--option", "deterministic=true", "--option", "impl_mode=high_precision"]), 2);
    let ran = bench.run("build", &["--option", "impl_mode=best"]);
    assert!(ran.stdout.contains("high_performance") || ran.stderr.contains("high_performance"), "{ran:?}");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    for (value, expected) in
        [("l2Mode=two", "whole number"), ("deterministic=maybe", "true, false"), ("core_num=0", "1 or more")]
    {
        bench.run("build", &["--option", value]).ended_with(2).says(expected);
    }
    // The options that the help proposes for every target.
    let every = [
        "deterministic=true",
        "op_impl_mode=high_precision",
        "coreNum=8",
        "op_impl_mode_list=MatMul:high_precision",
    ];
    bench.build(&every.iter().flat_map(|option| ["--option", option]).collect::<Vec<_>>());
    bench.run("build", &["--option", "impl_mode"]).ended_with(2).says("NAME=VALUE");
    // A misspelt option is an error of the user; one that only a descriptor has is the framework's.
    let ran = bench.run("build", &["--option", "impl_mod=high_precision"]).ended_with(2);
    assert!(ran.stderr.contains("no option `impl_mod` (did you mean `impl_mode`?)"), "{ran:?}");
}

fn chips() {
    let bench = Bench::new();
    let build = |target: &str| {
        let args = ["build", "--target", target, bench.descriptors[0].as_str()];
        bench.place.run_with(&args, &bench.environment())
    };
    build("Ascend910B9").ended_with(2).says("Ascend910B1");
    build("Ascend910B").says("not one of the family");
    let nothing = [("HOME", bench.place.path("tmp").to_str().unwrap().to_owned())];
    let nothing: Vec<(&str, &str)> = nothing.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let args = ["build", "--target", "Ascend910B1", bench.descriptors[0].as_str()];
    bench.place.run_with(&args, &nothing).ended_with(2).says("ASCEND_HOME_PATH");
    // A named directory has precedence over the environment.
    let root = bench.installed.root().to_str().unwrap();
    let python = toolkit::python().unwrap();
    let args = ["build", "--target", "Ascend910B1", "--cann", root, bench.descriptors[0].as_str()];
    let set = [("ASCEND_HOME_PATH", "/nowhere"), ("HI_PYTHON", python.to_str().unwrap())];
    bench.place.run_with(&args, &set).ended_with(0);
}

/// Builds a network for the chip; returns the numbers of operators, kernels and compiles, by the toolkit's own log too.
fn build_network(bench: &Bench, model: &str, more: &[(&str, &str)]) -> [u64; 3] {
    let before = bench.compiles();
    let args = ["build", "--target", "Ascend910B1", "--format", "json", model];
    let mut set = bench.environment().to_vec();
    set.extend_from_slice(more);
    let ran = bench.place.run_with(&args, &set).ended_with(0);
    let compiled = ran.count("compiled");
    assert_eq!(bench.compiles() - before, compiled as usize, "{ran:?}");
    [ran.count("operators"), ran.count("kernels"), compiled]
}

const LENET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet/model.onnx");

fn network() {
    let bench = Bench::new();
    let [operators, kernels, compiled] = build_network(&bench, LENET, &[]);
    assert!(kernels > 10 && compiled == kernels && operators >= kernels, "{operators} {kernels} {compiled}");
    // The answers of operators are kept: a build that compiles nothing starts no program of the toolkit.
    // Without its switches the stand-in cannot be imported.
    bench.installed.remove(&bench.installed.path("opkeep_standin/control")).unwrap();
    assert_eq!(build_network(&bench, LENET, &[]), [operators, kernels, 0]);
    let ran = bench.place.run(&["build", "--format", "json", LENET]).ended_with(0);
    assert_eq!(ran.json()["backend"].as_str(), Some("cpu"));
    assert_eq!(build_network(&bench, LENET, &[]), [operators, kernels, 0]);
    bench.installed.rules(&[]).unwrap();
    // One operator is edited: it is queried again, and its kernels are compiled again.
    bench.installed.append(&bench.installed.impl_file("dynamic/conv2d.py"), "\n# edited\n").unwrap();
    let [_, _, compiled] = build_network(&bench, LENET, &[]);
    let last: Vec<String> =
        bench.installed.compiles().unwrap().into_iter().map(|compile| compile.op).collect();
    assert!(
        compiled > 0 && last[last.len() - compiled as usize..].iter().all(|op| op == "Conv2D"),
        "{last:?}"
    );
}

/// An operator that never answers the query for its formats.
fn interrupted() {
    let bench = Bench::new();
    let begun = bench.place.path("begun");
    let hang = format!(
        "\ndef op_select_format(*_, **__):\n    open({begun:?}, 'w').close()\n    import time\n    time.sleep(600)\n"
    );
    bench.installed.append(&bench.installed.impl_file("dynamic/conv2d.py"), &hang).unwrap();
    for verb in [&["build"][..], &["run"]] {
        let _ = std::fs::remove_file(&begun);
        let mut command = bench.place.command(&[verb, &["--target", "Ascend910B1", LENET]].concat());
        command.envs(bench.environment()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while !begun.exists() {
            assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "nobody was asked");
            std::thread::sleep(Duration::from_millis(10));
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "{verb:?} goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(child.wait().unwrap().code(), Some(130), "{verb:?}");
    }
}

fn resnet() {
    let model = corpus::directory().unwrap().join("onnx/light_resnet50.onnx");
    let bench = Bench::new();
    let [operators, kernels, compiled] = build_network(&bench, model.to_str().unwrap(), &[]);
    assert!(operators > 170 && kernels > 40 && compiled == kernels, "{operators} {kernels} {compiled}");
    assert_eq!(build_network(&bench, model.to_str().unwrap(), &[]), [operators, kernels, 0]);
}

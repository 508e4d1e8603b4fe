//! Kernels for debugging are compiled with their own flags, and never taken from the store.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use crate::common::{Place, SQUARE, square_of};

/// A file of a fixture network.
fn lenet(file: &str) -> String {
    format!("{}/../../fixtures/networks/lenet/{file}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_listed_operators_are_compiled_each_time_with_the_requested_flags() {
    let place = Place::new();
    let cc = place.compiler("cc-log", "echo \"$*\" >> log");
    let log = place.path("log");
    let script = std::fs::read_to_string(&cc).unwrap().replace(">> log", &format!(">> {}", log.display()));
    std::fs::write(&cc, script).unwrap();
    let cc = cc.to_str().unwrap();
    let other = place.write("four.info", square_of(4).replace("Default/Square-op1", "Default/other"));
    let other = other.to_str().unwrap();
    let config = place.write(
        "debug.cfg",
        "# what to look for\nop_debug_config=ccec_g,ccec_O0\nop_debug_list=Default/other,OpType::Gemm\n",
    );
    let flag = format!("--op_debug_config={}", config.display());
    let build = |flags: &[&str]| {
        let ran =
            place.run_with(&[&["build", SQUARE, other, "--format", "json"], flags].concat(), &[("CC", cc)]);
        ran.ended_with(0)
    };
    build(&[]);
    let compiled = || std::fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(compiled().len(), 2);
    assert!(compiled().iter().all(|line| !line.contains("-O0") && line.contains(" -s ")));

    for times in 1..=2 {
        let ran = build(&[&flag]).says("`OpType::Gemm`");
        let json = ran.json();
        let outcomes = json["results"].as_array().unwrap().iter().map(|it| it["outcome"].as_str().unwrap());
        assert_eq!(outcomes.collect::<Vec<_>>(), ["reused", "bypassed"]);
        assert_eq!(compiled().len(), 2 + times, "only the listed one, and that each time");
    }
    let debugged = compiled().pop().unwrap();
    assert!(
        debugged.contains("-O0") && debugged.contains(" -g ") && !debugged.contains(" -s "),
        "{debugged}"
    );
    assert_eq!(place.entries().len(), 2);

    let explained = place.run_with(&["explain", SQUARE, other, &flag], &[("CC", cc)]).ended_with(0);
    assert!(explained.stdout.contains("1 hit, 0 miss, 1 bypassed"), "{explained:?}");

    let bad = place.write("bad.cfg", "op_debug_config=oom\noom\n");
    let flag = format!("--op_debug_config={}", bad.display());
    place.run(&["build", SQUARE, &flag]).ended_with(2).says("line 2").says("bad.cfg");
    let unknown = place.write("unknown.cfg", "op_debug_config=faster\n");
    let flag = format!("--op_debug_config={}", unknown.display());
    let refused = place.run(&["build", SQUARE, &flag]).ended_with(1);
    assert!(refused.stdout.contains("faster") && refused.stdout.contains("ccec_g"), "{refused:?}");
}

/// While CANN collects information for its maintainers, its own cache is off, too.
#[test]
fn while_information_is_collected_nothing_comes_from_the_store() {
    let place = Place::new();
    let collect = [("NPU_COLLECT_PATH", "/collected")];
    let build = |flags: &[&str], variables: &[(&str, &str)]| {
        place.run_with(&[&["build", SQUARE, "--format", "json"], flags].concat(), variables).ended_with(0)
    };
    assert_eq!(build(&[], &[("NPU_COLLECT_PATH", "")]).count("compiled"), 1, "empty is as good as unset");
    for _ in 0..2 {
        let ran = build(&[], &collect).says("NPU_COLLECT_PATH");
        assert_eq!(ran.count("bypassed"), 1);
    }
    assert_eq!(place.entries().len(), 1);
    // An explicit debug configuration has precedence.
    let config = place.write("debug.cfg", "op_debug_config=oom\nop_debug_list=Default/other\n");
    let flag = format!("--op_debug_config={}", config.display());
    assert_eq!(build(&[&flag], &collect).count("reused"), 1);
    let explained = place.run_with(&["explain", SQUARE], &collect).ended_with(0);
    assert!(explained.stdout.contains("0 hit, 0 miss, 1 bypassed"), "{explained:?}");
}

#[test]
fn a_network_compiled_for_debugging_computes_the_same() {
    let place = Place::new();
    let ran = place.run(&[
        "run",
        &lenet("model.onnx"),
        "--op_debug_level=2",
        "--input",
        &lenet("input_0.pb"),
        "--compare",
        &lenet("output_0.pb"),
    ]);
    ran.ended_with(0);
    assert_eq!(place.entries().len(), 0);
}

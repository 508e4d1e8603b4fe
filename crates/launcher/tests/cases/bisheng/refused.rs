//! What runs as it is, and what is never kept.

use opkeep_launcher::Reason;
use opkeep_launcher::bisheng::NotCached;

use super::Case;
use super::bench::{Bench, Did, Line};

pub(super) const CASES: &[Case] = &[
    ("bisheng::other_command_lines_run_as_they_are", other_command_lines_run_as_they_are),
    ("bisheng::a_part_of_an_observed_command_runs_as_it_is", a_part_of_an_observed_command_runs_as_it_is),
    ("bisheng::failures_are_never_kept", failures_are_never_kept),
];

fn other_command_lines_run_as_they_are() {
    let bench = Bench::new();
    bench.write("w/a.cpp", "#include \"h.h\"\nint f() { return H; }\n");
    bench.write("w/b.cpp", "int g() { return 1; }\n");
    bench.write("w/h.h", "#define H 1\n");
    bench.write("w/args", "-DX -DY");
    for args in [
        "-E {}/w/a.cpp",
        "-E {}/w/a.cpp -o {}/w/k.o",
        "-S {}/w/a.cpp -o {}/w/k.o",
        "-c {}/w/a.cpp",
        "-c {}/w/a.cpp {}/w/b.cpp",
        "-c -x c++ - -o {}/w/k.o",
        "-c @{}/w/args {}/w/a.cpp -o {}/w/k.o",
        "-c -MD -MF {}/w/k.d {}/w/a.cpp -o {}/w/k.o",
        "-c -save-temps {}/w/a.cpp -o {}/w/k.o",
        "-c -unknown-flag {}/w/a.cpp -o {}/w/k.o",
        "-c -fsyntax-only {}/w/a.cpp -o {}/w/k.o",
        "-c -march=native {}/w/a.cpp -o {}/w/k.o",
        "-c -Xclang -fno-validate-pch {}/w/a.cpp -o {}/w/k.o",
        "--version",
        "",
    ] {
        for _ in 0..2 {
            let did = bench.run(&Line::of(args));
            assert!(matches!(did, Did::NotCached(_)), "{args}: {did:?}");
        }
    }
    assert!(!bench.path("store").exists());
}

/// Its files in the store would be inputs and outputs of that command.
fn a_part_of_an_observed_command_runs_as_it_is() {
    let bench = Bench::new();
    bench.write("w/a.cpp", "int f() { return 1; }\n");
    for _ in 0..2 {
        let did = bench.run(&Line::new("w", "").with("OBSERVED_BY_OPKEEP", "1"));
        assert_eq!(did, Did::NotCached(NotCached::Observed));
    }
}

fn failures_are_never_kept() {
    let bench = Bench::new();
    for (text, did) in [
        ("int f() { return 1 }\n", Did::NotKept(Reason::Failed)),
        ("#error no\n", Did::NotCached(NotCached::Preprocessor)),
        ("#include <absent.h>\n", Did::NotCached(NotCached::Preprocessor)),
    ] {
        bench.write("w/a.cpp", text);
        for _ in 0..2 {
            assert_eq!(bench.run(&Line::new("w", "")), did, "{text}");
        }
    }
    bench.write("w/a.cpp", "int f() { return 1; }\n");
    bench.keep(&Line::new("w", ""));
}

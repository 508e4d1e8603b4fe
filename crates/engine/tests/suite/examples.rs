//! The examples work as documented.

use std::path::PathBuf;
use std::process::Command;

/// Runs an example that was built beside this test: cargo builds all examples for a package's tests.
fn run(example: &str, args: &[&str]) -> String {
    let beside = std::env::current_exe().unwrap();
    let program: PathBuf = beside.parent().unwrap().parent().unwrap().join("examples").join(example);
    if !program.is_file() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "opkeep", "--example", example]);
        assert!(build.status().unwrap().success());
    }
    let output =
        Command::new(&program).args(args).output().unwrap_or_else(|error| panic!("{program:?}: {error}"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Returns the number of lines with all of `words`.
fn lines(text: &str, words: &[&str]) -> usize {
    text.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
}

#[test]
fn a_framework_builds_for_each_target() {
    for target in ["cpu", "cpu-native", "tiny"] {
        let text = run("framework", &[target]);
        assert_eq!(lines(&text, &["square_", "is compiled, for Default/Square-op1"]), 1, "{text}");
        assert_eq!(lines(&text, &["kernels where the framework looks for them: 1"]), 1, "{text}");
        // Three kernels, each compiled once for any number of threads; each line has all three operators.
        assert_eq!(lines(&text, &["  compiling"]), 3, "{text}");
        for thread in ["one", "two", "three"] {
            assert_eq!(lines(&text, &[&format!("{thread}: "), "bytes"]), 3, "{text}");
        }
    }
}

#[test]
fn a_custom_backend_compiles_once_and_shares_a_store_with_another() {
    let text = run("custom_backend", &[]);
    assert_eq!(lines(&text, &["tiny compiled", "(not in the store)"]), 2, "{text}");
    assert_eq!(lines(&text, &["tiny reused"]), 4, "{text}");
    assert_eq!(lines(&text, &["tiny failed", "no operator `Exp`"]), 3, "{text}");
    assert_eq!(lines(&text, &["cpu  compiled"]), 3, "{text}");
}

#[test]
fn a_backend_for_an_unknown_device_compiles_once() {
    let text = run("ptx_backend", &[]);
    assert_eq!(lines(&text, &["compiled", "for sm_90"]), 2, "{text}");
    assert_eq!(lines(&text, &["reused", "for sm_90"]), 2, "{text}");
    assert_eq!(lines(&text, &[".visible .entry square_"]), 1, "{text}");
}

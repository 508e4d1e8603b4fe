//! The project's tasks, run as `cargo xtask NAME`. `ci` runs what CI checks, so that both agree.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task reports to the terminal")]

mod benches;
mod bundled;
mod cargo;
mod conformance;
mod deb;
mod disk;
mod dist;
mod docs;
mod findings;
mod frameworks;
mod guard;
mod install_size;
mod notices;
mod package;
mod public_items;
mod published;
mod python;
mod release;
mod remote_servers;
mod report;
mod steps;
mod task;
mod tidy;
mod venv;
mod wheel;
mod words;

use std::process::ExitCode;

use task::Task;

/// Name, help, function.
const TASKS: &[(&str, &str, Task)] = &[
    (
        "ci",
        "everything that CI checks; --skip-tests leaves out the last step, --step NAME runs one",
        steps::ci,
    ),
    ("fmt", "format every crate", steps::fmt),
    ("clippy", "lint every target of every crate, warnings are errors", steps::clippy),
    (
        "tidy",
        "check what no lint does: arrows, module cycles, directories, manifests, sources, fixtures, paths",
        tidy::tidy,
    ),
    ("doc", "build the documentation, warnings are errors", steps::doc),
    (
        "docs",
        "check the links of all documents and build the book; --check builds nothing, --update writes generated pages",
        docs::docs,
    ),
    (
        "bench-report",
        "run the benchmarks of the budgets and write benches/REPORT.md; --peers RESULTS.json of other caches",
        report::bench_report,
    ),
    (
        "guard",
        "count instructions beside the committed figures; needs valgrind; --update commits",
        guard::guard,
    ),
    (
        "dist",
        "make the archives of the command, --target TRIPLE of one platform; --check builds twice and compares; needs musl",
        dist::dist,
    ),
    ("findings", "compare FINDINGS.md with the validator's codes; --update writes it", findings::findings),
    (
        "notices",
        "compare THIRD-PARTY.md with the linked crates and their licences; --update writes it",
        notices::notices,
    ),
    (
        "conformance",
        "compare with ONNX Runtime: networks and random operators; needs Python",
        conformance::conformance,
    ),
    (
        "frameworks",
        "Triton and JAX with their own caches and with ours: races, damage, kills; needs Python and its index",
        frameworks::frameworks,
    ),
    (
        "install-size",
        "install the command below target/, and check that it is stripped and small",
        install_size::install_size,
    ),
    ("deb", "make the Debian package, and check it; --maintainer 'NAME <ADDRESS>'", deb::deb),
    (
        "package",
        "make the package of each published crate, and compile it by itself; --no-verify compiles nothing",
        package::package,
    ),
    (
        "python",
        "build, install and test the Python package, with each Python that there is; TEST names some tests, `--install` takes minutes",
        python::python,
    ),
    (
        "release",
        "set VERSION in all places, and date the changes; commits nothing; prints what comes next",
        release::release,
    ),
    (
        "remote-servers",
        "install the servers for tests of the remote tier, start each; --install builds s3s-fs, --check installs none",
        remote_servers::remote_servers,
    ),
    ("public-items", "count the public names of each library; CRATE lists them", public_items::public_items),
    ("words", "count words that the vocabulary has others for; WORD lists its lines", words::words),
    ("soak", "run every test in its long form, about half an hour; needs `OPKEEP_CORPUS`", steps::soak),
    ("test", "run every test; further arguments go to `cargo test`", steps::test),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((name, _)) if ["help", "--help", "-h"].contains(&name.as_str()) => {
            println!("{}", help());
            ExitCode::SUCCESS
        }
        Some((name, rest)) => match run(name, rest) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                eprintln!("xtask {name}: {message}");
                ExitCode::FAILURE
            }
        },
        None => {
            eprintln!("{}", help());
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, args: &[String]) -> Result<(), String> {
    match TASKS.iter().find(|(known, ..)| *known == name) {
        Some((_, _, task)) => task(args),
        None => Err(format!("there is no such task\n{}", help())),
    }
}

fn help() -> String {
    let lines = TASKS.iter().map(|(name, help, _)| format!("\n  {name:15}{help}"));
    format!("usage: cargo xtask NAME [ARGUMENTS]\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_task_lists_the_known_ones() {
        let message = run("tydi", &[]).unwrap_err();
        for (name, ..) in TASKS {
            assert!(message.contains(&format!("\n  {name} ")), "{name} is missing from: {message}");
        }
    }

    #[test]
    fn a_task_without_arguments_refuses_them() {
        for name in ["fmt", "clippy", "tidy", "doc", "ci"] {
            assert!(run(name, &["--fix".to_owned()]).unwrap_err().contains("`--fix`"), "{name}");
        }
    }
}

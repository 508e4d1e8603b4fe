//! The test programs in `tests/c`.

use libtest_mimic::{Failed, Trial};

use crate::prefix::prefix;
use crate::toolchain::{Language, Sanitizer, Toolchain, output, toolchains};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for toolchain in toolchains(Language::C) {
        match toolchain.sanitizer {
            Sanitizer::None => {
                trials.push(toolchain.trial("forked children", |it| run(it, "fork.c", &["child"])));
                trials.push(toolchain.trial("a killed parent", |it| run(it, "fork.c", &["killed"])));
                trials.push(toolchain.trial("forks beside threads", |it| run(it, "fork.c", &["threads"])));
                trials.push(toolchain.trial("a static library", static_library));
            }
            Sanitizer::Address => trials.push(toolchain.trial("bad input", |it| run(it, "bad_input.c", &[]))),
            Sanitizer::Thread => {
                trials.push(toolchain.trial("all functions on all threads", |it| run(it, "threads.c", &[])));
                trials.push(toolchain.trial("a race in a program", race));
            }
        }
    }
    let cpp = toolchains(Language::Cpp).filter(|toolchain| toolchain.sanitizer == Sanitizer::Address);
    trials.extend(cpp.map(|toolchain| toolchain.trial("wrapper", |it| run(it, "wrapper.cpp", &[]))));
    trials
}

fn run(toolchain: Toolchain, name: &str, arguments: &[&str]) -> Result<(), Failed> {
    let program = toolchain.compile(&format!("tests/c/{name}"))?;
    output(program.command().args(arguments).arg(program.path("store")))?;
    Ok(())
}

/// The suppressions hide no race of the program.
fn race(toolchain: Toolchain) -> Result<(), Failed> {
    let program = toolchain.compile("tests/c/race.c")?;
    let run = program.command().output()?;
    let report = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(!run.status.success() && report.contains("data race"), "{report}");
    Ok(())
}

fn static_library(toolchain: Toolchain) -> Result<(), Failed> {
    let archive = prefix().join("lib/libopkeep.a").display().to_string();
    let program =
        toolchain.compile_with("tests/c/fork.c", &[&archive, "-lm", "-ldl", "-lrt", "-lutil", "-lgcc_s"])?;
    output(program.command().arg("child").arg(program.path("store")))?;
    let needed = output(std::process::Command::new("readelf").arg("--dynamic").arg(program.file()))?;
    assert!(!needed.contains("libopkeep"), "{needed}");
    Ok(())
}

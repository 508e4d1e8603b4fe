//! The test programs in `tests/c`.

use std::path::Path;
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use opkeep_fs::Fs;
use opkeep_trust::SigningKey;

use crate::prefix::{LIBS_PRIVATE, prefix};
use crate::toolchain::{Language, Sanitizer, Toolchain, output, toolchains};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for toolchain in toolchains(Language::C) {
        match toolchain.sanitizer {
            Sanitizer::None => {
                trials.push(toolchain.trial("forked children", forked_children));
                trials.push(toolchain.trial("modes", |it| run(it, "modes.c", &[])));
                trials.push(toolchain.trial("hosts that share a cache", shared_cache));
                trials.push(toolchain.trial("an exit right after a publication", exit_after_publication));
                trials.push(toolchain.trial("a killed parent", |it| run(it, "fork.c", &["killed"])));
                trials.push(toolchain.trial("stale holders", |it| run(it, "fork.c", &["stale"])));
                trials.push(toolchain.trial("forks beside threads", |it| run(it, "fork.c", &["threads"])));
                trials.push(toolchain.trial("exit while threads wait", exit_while_threads_wait));
                trials.push(toolchain.trial("an unloaded library", unloaded_library));
                trials.push(toolchain.trial("a static library", static_library));
                trials.push(toolchain.trial("headers under all standards", headers));
            }
            Sanitizer::Address => {
                trials.push(toolchain.trial("bad input", |it| run(it, "bad_input.c", &[])));
                trials.push(toolchain.trial("hosts that share a cache", shared_cache));
                trials.push(toolchain.trial("use while threads end", |it| run(it, "exit.c", &["late"])));
                let trial = toolchain.trial("a leak of a program", leak);
                let is_ignored = trial.has_ignored_flag() || !toolchain.finds_leaks();
                trials.push(trial.with_ignored_flag(is_ignored));
            }
            Sanitizer::Thread => {
                trials.push(toolchain.trial("all functions on all threads", |it| run(it, "threads.c", &[])));
                trials.push(toolchain.trial("a race in a program", race));
            }
        }
    }
    for toolchain in toolchains(Language::Cpp) {
        match toolchain.sanitizer {
            Sanitizer::None => trials.push(toolchain.trial("headers under all standards", headers)),
            Sanitizer::Address => trials.push(toolchain.trial("wrapper", |it| run(it, "wrapper.cpp", &[]))),
            Sanitizer::Thread => {}
        }
    }
    trials
}

fn run(toolchain: Toolchain, name: &str, arguments: &[&str]) -> Result<(), Failed> {
    let program = toolchain.compile(&format!("tests/c/{name}"))?;
    output(program.command().args(arguments).arg(program.path("store")))?;
    Ok(())
}

/// Two hosts with a store each, and one engine.
fn shared_cache(toolchain: Toolchain) -> Result<(), Failed> {
    let program = toolchain.compile("tests/c/remote.c")?;
    let (secret, store) = (program.path("secret"), program.path("hosts"));
    let key = SigningKey::generate("builds-1".parse()?)?;
    key.write_new(&Fs::new(), Path::new(&secret))?;
    let public = key.public_key().to_string();
    output(program.command().arg(&secret).arg(&public).arg(&store))?;
    Ok(())
}

/// A program that closes nothing: what it published is in the engine when it is gone, and no lease is left.
fn exit_after_publication(toolchain: Toolchain) -> Result<(), Failed> {
    let program = toolchain.compile("tests/c/remote_exit.c")?;
    for how in ["main", "exit"] {
        let base = program.path(how);
        output(program.command().arg(how).arg(&base))?;
        output(program.command().arg("find").arg(&base))?;
    }
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

/// What a child releases ends nothing of its parent, and its counts are its own.
fn forked_children(toolchain: Toolchain) -> Result<(), Failed> {
    let program = toolchain.compile("tests/c/fork.c")?;
    output(program.command().arg("child").arg(program.path("store")))?;
    let counts = std::fs::read_to_string(program.path("store/v1/target-1/stats"))?;
    let count = |name| counts.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    assert_eq!((count("hits "), count("compiles ")), (Some(6), Some(2)), "{counts}");
    Ok(())
}

/// Each run ends at another moment of the waits.
fn exit_while_threads_wait(toolchain: Toolchain) -> Result<(), Failed> {
    let program = toolchain.compile("tests/c/exit.c")?;
    for run in 0..10 {
        output(program.command().arg("waiting").arg(program.path(&format!("store-{run}"))))?;
    }
    Ok(())
}

fn unloaded_library(toolchain: Toolchain) -> Result<(), Failed> {
    let program = toolchain.compile_with("tests/c/unload.c", &["-ldl"])?;
    output(program.command().arg(prefix().join("lib/libopkeep.so")).arg(program.path("store")))?;
    Ok(())
}

/// The leaks that the sanitizer would find are not hidden.
fn leak(toolchain: Toolchain) -> Result<(), Failed> {
    let program = toolchain.compile("tests/c/leak.c")?;
    let run = program.command().output()?;
    let report = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(!run.status.success() && report.contains("detected memory leaks"), "{report}");
    Ok(())
}

/// The headers, as strict projects compile them.
fn headers(toolchain: Toolchain) -> Result<(), Failed> {
    let (header, standards): (_, &[_]) = match toolchain.language() {
        Language::C => ("opkeep.h", &["c99", "c17", "c2x"]),
        Language::Cpp => ("opkeep.hpp", &["c++17", "c++20", "c++2b"]),
    };
    let language = if toolchain.language() == Language::C { "c" } else { "c++" };
    for standard in standards {
        let mut compile = Command::new(toolchain.compiler);
        compile.args(["-fsyntax-only", "-Wold-style-cast", "-Wcast-qual", "-Wsign-conversion", "-Wundef"]);
        compile.args(toolchain.warnings()).arg(format!("-std={standard}"));
        // The header itself would be a program that opens with `#pragma once`.
        compile.args(["-include", header, "-x", language, "/dev/null", "-I"]).arg(prefix().join("include"));
        output(&mut compile)?;
    }
    Ok(())
}

fn static_library(toolchain: Toolchain) -> Result<(), Failed> {
    let archive = prefix().join("lib/libopkeep.a").display().to_string();
    let link: Vec<&str> = std::iter::once(archive.as_str()).chain(LIBS_PRIVATE.split(' ')).collect();
    let program = toolchain.compile_with("tests/c/fork.c", &link)?;
    output(program.command().arg("child").arg(program.path("store")))?;
    let needed = output(Command::new("readelf").arg("--dynamic").arg(program.file()))?;
    assert!(!needed.contains("libopkeep"), "{needed}");
    Ok(())
}

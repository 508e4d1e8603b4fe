//! The examples: 8 threads, then 8 processes, compile once.

use std::fs;
use std::process::Stdio;

use libtest_mimic::{Failed, Trial};

use crate::toolchain::{Language, Program, Toolchain, output, toolchains};

const CALLERS: usize = 8;
const LINE: &str = "object of kernel add(x, y) { x + y }\n";

pub(crate) fn trials() -> Vec<Trial> {
    let c =
        toolchains(Language::C).map(|toolchain| toolchain.trial("compile_cache.c", |it| example(it, "c")));
    let cpp = toolchains(Language::Cpp)
        .map(|toolchain| toolchain.trial("compile_cache.cpp", |it| example(it, "cpp")));
    c.chain(cpp).collect()
}

fn example(toolchain: Toolchain, extension: &str) -> Result<(), Failed> {
    let program = toolchain.compile(&format!("examples/compile_cache.{extension}"))?;
    in_threads(&program)?;
    in_processes(&program)
}

fn in_threads(program: &Program) -> Result<(), Failed> {
    let (store, log) = (program.path("of-threads"), program.path("compiles-of-threads"));
    // The second run finds the kernel.
    for _ in 0..2 {
        let mut command = program.command();
        command.arg(&store).arg(&log).arg(CALLERS.to_string());
        assert_eq!(output(&mut command)?, LINE.repeat(CALLERS));
        assert_eq!(fs::read_to_string(&log)?, "compiled\n");
    }
    Ok(())
}

fn in_processes(program: &Program) -> Result<(), Failed> {
    let (store, log) = (program.path("of-processes"), program.path("compiles-of-processes"));
    let mut children = Vec::new();
    for _ in 0..CALLERS {
        let mut command = program.command();
        command.arg(&store).arg(&log).stdout(Stdio::piped()).stderr(Stdio::piped());
        children.push(command.spawn()?);
    }
    for child in children {
        let output = child.wait_with_output()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), LINE);
    }
    assert_eq!(fs::read_to_string(&log)?, "compiled\n");
    Ok(())
}

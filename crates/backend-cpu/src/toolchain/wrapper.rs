//! Programs that run the compiler: scripts, and programs that pass their arguments on.
//!
//! A compiler's own programs do the same for each source but for what they read, which is enforced. A wrapper can
//! decide by anything: that a file exists, a host's name, the source itself. So looks count as well
//! ([`looks`](super::looks)), and what a wrapper takes from what is not restricted is in no key unless it shows in the
//! steps of the probe.
//!
//! A program is recognised as a wrapper by what runs after it: our flags that only a driver knows reach a program that
//! the dry run does not show. A compiler with a plug-in in CC is treated as one with a wrapper.

use opkeep_process::{Observation, Program};

use super::words::command_of;

/// One of our flags that only drivers know. The programs that a driver runs get what follows from it.
const OF_DRIVERS: &str = "-Wl,--build-id=none";

/// Whether a script took part, or a program that the compiler's driver does not run by what its dry run shows.
pub(crate) fn takes_part(seen: &Observation, steps: &str) -> bool {
    let programs = seen.programs.iter().filter(|program| !program.path.as_os_str().is_empty());
    let shown = steps.lines().filter_map(command_of).map(|step| step.first().cloned().unwrap_or_default());
    // collect2 runs ld, which a dry run does not show; clang may compile in its own process.
    let run = |step: String| if step.ends_with("collect2") { 2 } else { 1 };
    let in_process = usize::from(steps.lines().any(|line| line.trim() == "(in-process)"));
    programs.clone().count() + in_process > 1 + shown.map(run).sum::<usize>()
        || seen.programs.iter().any(|program| program.is_script)
        || programs.skip(1).any(is_run_by_wrapper)
}

/// Whether a program that is not the first is one that a driver does not run: a driver itself, a program in the place of
/// another, one whose arguments are in a file.
fn is_run_by_wrapper(program: &Program) -> bool {
    let mut args = program.args.iter().skip(1);
    program.replaces_program || args.any(|arg| arg == OF_DRIVERS || arg.as_encoded_bytes().starts_with(b"@"))
}

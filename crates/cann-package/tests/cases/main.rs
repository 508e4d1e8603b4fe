//! Packages that agree, packages that are damaged in every way, and genuine ones.

#[path = "../common/mod.rs"]
mod common;
mod diff;
mod genuine;
mod hostile;
mod mutations;
mod plan;

fn main() -> std::process::ExitCode {
    let arguments = libtest_mimic::Arguments::from_args();
    let trials = [mutations::trials(), hostile::trials(), genuine::trials(), diff::trials(), plan::trials()];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}

//! Tests of the command that need files, programs or rights which a machine may lack: they show as ignored without them.

mod accidents;
mod ascend;
mod ascend_confined;
mod ascend_mutations;
mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod import;
mod in_process;
mod man_pages;
mod package_builds;
mod packages;
mod privileged;
mod remote;
mod remote_hosts;
mod remote_hung;
mod remote_toolchains;
mod report_page;
mod tiling_keys;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::Arguments;

#[expect(clippy::print_stderr, reason = "a test program reports to people")]
fn main() -> ExitCode {
    if let Some(exit_code) = in_process::host() {
        return exit_code;
    }
    let arguments = Arguments::from_args();
    // The files that a compiler reads are in the key: some hundred toolchains that change between builds.
    let (mutated, laboratory) =
        match opkeep_toolchain_mutations::trials(Path::new(env!("CARGO_BIN_EXE_opkeep")), &arguments) {
            Ok(prepared) => prepared,
            Err(error) => {
                eprintln!("the toolchains that change between builds cannot be prepared: {error}");
                return ExitCode::FAILURE;
            }
        };
    let modules = [
        accidents::trials(),
        package_builds::trials(),
        packages::trials(),
        tiling_keys::trials(),
        privileged::trials(),
        remote::trials(),
        remote_hosts::trials(),
        remote_hung::trials(),
        cluster::trials(),
        remote_toolchains::trials(),
        report_page::trials(),
        ascend::trials(),
        ascend_confined::trials(),
        ascend_mutations::trials(),
        import::trials(),
        in_process::trials(),
        man_pages::trials(),
        mutated,
    ];
    let conclusion = opkeep_testkit::run_waiting(arguments, modules.into_iter().flatten().collect());
    laboratory.show();
    conclusion.exit_code()
}

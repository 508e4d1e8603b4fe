//! The `opbuild` command. The only place that prints, exits, or reads the environment at large.

mod args;
mod build;
mod chips;
mod compare;
mod entry;
mod env;
mod explain;
mod feed;
mod gc_kernel_cache;
mod import;
mod input;
mod inspect;
mod inspect_info;
mod inspect_kernel;
mod interrupt;
mod left;
mod model;
mod output;
mod pairs;
mod profile;
mod progress;
mod repair;
mod repair_caches;
mod repair_shown;
mod repair_undo;
mod run;
mod show;
mod store;
mod targets;
mod targets_ascend;
mod values;
mod verify;
mod verify_caches;
mod verify_store;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use output::{Output, Verdict};

fn main() -> ExitCode {
    let args = Args::parse();
    let output = Output::new(args.format);
    let verdict = match &args.command {
        Command::Build(args) => build::build(args, &output),
        Command::Explain(args) => explain::explain(args, &output),
        Command::Run(args) => run::run(args, &output),
        Command::Inspect(args) => inspect::inspect(args, &output),
        Command::Verify(args) => verify::verify(args, &output),
        Command::Repair(args) => repair::repair(args, &output),
        Command::Import(args) => import::import(args, &output),
        Command::Gc(args) => store::gc(args, &output),
        Command::Stats(args) => store::stats(args, &output),
        Command::Clear(args) => store::clear(args, &output),
        Command::Targets => targets::targets(&output),
    };
    match verdict {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Problems) => ExitCode::from(1),
        Ok(Verdict::Unusable) => ExitCode::from(2),
        Ok(Verdict::Interrupted) => ExitCode::from(interrupt::EXIT_CODE),
        Err(error) if interrupt::is_behind(&error) => {
            output.interrupted();
            ExitCode::from(interrupt::EXIT_CODE)
        }
        Err(error) => {
            output.failure(&error);
            ExitCode::from(2)
        }
    }
}

//! The `opkeep` command. The only place that prints, exits, or reads the environment at large.

mod args;
mod build;
mod chips;
mod compare;
mod dims;
mod entry;
mod env;
mod explain;
mod feed;
mod file_limit;
mod gc_kernel_cache;
mod import;
mod input;
mod inspect;
mod inspect_info;
mod inspect_kernel;
mod interrupt;
mod left;
mod model;
mod options;
mod others;
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
mod text;
mod tolerance;
mod values;
mod verify;
mod verify_caches;
mod verify_store;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use file_limit::FileLimit;
use output::{Output, Verdict};
use text::one_line;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage(error),
    };
    let output = Output::new(args.format, FileLimit::watch());
    let verdict = run(&args, &output);
    if let Err(error) = &verdict
        && !interrupt::is_behind(error)
    {
        output.failure(error);
    }
    output.warn_of_file_limit();
    match verdict {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Problems) => ExitCode::from(1),
        Ok(Verdict::Unusable) => ExitCode::from(2),
        Ok(Verdict::Interrupted) => ExitCode::from(interrupt::EXIT_CODE),
        Err(error) if interrupt::is_behind(&error) => {
            output.interrupted();
            ExitCode::from(interrupt::EXIT_CODE)
        }
        Err(_) => ExitCode::from(2),
    }
}

fn run(args: &Args, output: &Output) -> anyhow::Result<Verdict> {
    match &args.command {
        Command::Build(args) => build::build(args, output),
        Command::Explain(args) => explain::explain(args, output),
        Command::Run(args) => run::run(args, output),
        Command::Inspect(args) => inspect::inspect(args, output),
        Command::Verify(args) => verify::verify(args, output),
        Command::Repair(args) => repair::repair(args, output),
        Command::Import(args) => import::import(args, output),
        Command::Gc(args) => store::gc(args, output),
        Command::Stats(args) => store::stats(args, output),
        Command::Clear(args) => store::clear(args, output),
        Command::Targets => targets::targets(output),
    }
}

/// Says what is wrong with the command line, or gives the help that it asks for.
fn usage(error: clap::Error) -> ExitCode {
    // clap shows arguments as they are. Most are names of files, which a pattern of the shell may have found.
    let shown = std::env::args_os().map(|arg| one_line(&arg.to_string_lossy()));
    let error = Args::try_parse_from(shown).err().unwrap_or(error);
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

//! `opkeep doctor`: whether builds can work here, and what is in their way.

mod compilers;
mod limits;
mod remote;
mod row;
mod store;

use std::time::Duration;

use serde::Serialize;

use self::row::{Check, Row, Status, run_all};
use crate::config::load::{ConfigFile, FileState, Loaded};
use crate::flags::compile::CompileArgs;
use crate::flags::remote::RemoteArgs;
use crate::flags::trust::TrustArgs;
use crate::ui::config::Verbosity;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, padding};

/// The details of doctor.
const DETAILS: &str = "\
Each line is ok, a note, or a problem with what to do. The flags are those of a build: with them, doctor reports on the \
build that they describe. A test kernel is compiled, loaded and run in a directory that is removed; in the store, files are \
created and removed; a remote cache is asked for a name that it does not have. Nothing \
stays: an interrupted command removes its directory, and what a killed one left, the next one removes.

All checks run at once, and each has a limit: 10 s, and 60 s for compilers. A file system or a server that does not \
answer is a problem.

Exit code 0: builds can work, perhaps without a store or a remote cache; 1: something prevents them; 130: interrupted.

Examples:
  opkeep doctor
    checks what a build for the CPU needs
  opkeep doctor --target Ascend910B1 --remote redis://HOST
    checks what such a build needs
  opkeep doctor --format json
    prints the same for programs";

/// Check whether builds can work here: compilers, store, remote cache, limits
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    common: CompileArgs,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    trust: TrustArgs,
}

/// The limits of checks that call a compiler, and of the others.
const COMPILERS: Duration = Duration::from_secs(60);
const OTHERS: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let own = || args.clone();
    let progress = output.progress();
    progress.start("checking what builds need");
    let check = |name, limit, run: fn(&Args) -> Vec<Row>| {
        let args = own();
        Check::new(name, limit, move || run(&args))
    };
    // The other checks need the settings. If these cannot be read, as from a file system that hangs, neither can a build.
    let mut rows =
        run_all(vec![check("configuration", OTHERS, |args| configuration(args.common.config.load()))]);
    if rows.iter().any(|row| row.has_timed_out) {
        rows.iter_mut().for_each(|row| row.prevents_builds = true);
        progress.done();
        return report(&rows, output);
    }
    rows.extend(run_all(vec![
        check("compiler", COMPILERS, |args| compilers::cpu(&args.common)),
        check("landlock", OTHERS, |_| compilers::landlock()),
        check("cann", COMPILERS, |args| compilers::cann(&args.common)),
        check("temporary files", OTHERS, |_| limits::temporary()),
        check("store", OTHERS, |args| store::rows(&args.common)),
        check("store limits", OTHERS, |args| limits::store(&args.common, args.common.config.load())),
        check("remote", OTHERS, |args| remote::rows(&args.remote, &args.trust)),
        check("keys", OTHERS, |args| remote::keys(&args.remote, &args.trust)),
        check("limits", OTHERS, |args| limits::process(&args.common, args.common.config.load())),
    ]));
    progress.done();
    report(&rows, output)
}

fn report(rows: &[Row], output: &Output) -> anyhow::Result<ExitStatus> {
    let can_build = !rows.iter().any(|row| row.prevents_builds);
    let version = env!("CARGO_PKG_VERSION");
    let is_verbose = output.verbosity() > Verbosity::Normal;
    output.print_result(
        &text(rows, can_build, is_verbose),
        &DoctorOutput { version, can_build, checks: rows },
    )?;
    Ok(if can_build { ExitStatus::Success } else { ExitStatus::Problems })
}

/// The result as JSON.
#[derive(Serialize)]
struct DoctorOutput<'a> {
    version: &'static str,
    can_build: bool,
    checks: &'a [Row],
}

/// The files of settings that were read, and what is wrong with settings.
fn configuration(loaded: &Loaded) -> Vec<Row> {
    const NAME: &str = "configuration";
    let mut rows = Vec::new();
    let read = loaded.files.iter().filter(|file| matches!(file.state, FileState::Read));
    let read: Vec<String> = read
        .map(|ConfigFile { layer, path, .. }| format!("`{}` ({})", path.display(), layer.name()))
        .collect();
    let finding = if read.is_empty() { "no file".to_owned() } else { read.join(", ") };
    rows.push(match loaded.errors.is_empty() {
        true => Row::ok(NAME, format!("{finding}; `opkeep config` shows the settings in force")),
        false => Row::note(NAME, format!("{finding}; the checks below are with what is valid")),
    });
    rows.extend(loaded.ignored().map(|(problem, help)| Row::note(NAME, problem).help(help)));
    let errors =
        loaded.errors.iter().map(|error| Row::error(NAME, &error.clone().into()).prevents_builds(true));
    rows.extend(errors);
    rows
}

fn text(rows: &[Row], can_build: bool, is_verbose: bool) -> Text {
    let width = rows.iter().map(|row| row.check.len()).max().unwrap_or_default();
    let mut text = Text::default();
    for Row { check, status, finding, help, details, .. } in rows {
        let name = status.name();
        text.line(format_args!("{name:<7}  {check}{}  {finding}", padding(check, width)));
        // What helps with something that works is for those who ask for it.
        for help in help.iter().filter(|_| *status != Status::Ok) {
            text.line(format_args!("{:<7}  {}  help: {help}", "", padding("", width)));
        }
        if let Some(details) = details {
            match is_verbose {
                true => text.quoted(details),
                false => text.line(format_args!(
                    "{:<7}  {}  help: -v shows all that it wrote",
                    "",
                    padding("", width)
                )),
            }
        }
    }
    let problems = rows.iter().filter(|row| row.status == Status::Problem).count();
    let prevent: Vec<&str> = rows.iter().filter(|row| row.prevents_builds).map(|row| row.check).collect();
    text.line(match (can_build, problems) {
        (true, 0) => "builds can work".to_owned(),
        (true, _) => "builds can work, in spite of the problems above".to_owned(),
        (false, _) => format!("builds cannot work: {}", prevent.join(", ")),
    });
    text
}

//! `opkeep opc`: runs CANN's `opc`, or takes its result from the store.

mod bisheng;
mod launch;
mod shim;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use opkeep_fs::{Fs, TempDir};
use opkeep_launcher::bisheng::set_real_path;
use opkeep_launcher::opc::{NAMES, NotCached, Opc, set_toolkit_root};
use opkeep_launcher::shim::find_real;
use opkeep_launcher::{Invocation, Ran};

pub(crate) use bisheng::{Args as BishengArgs, run as run_bisheng};
pub(crate) use shim::ShimArgs;
pub(crate) use shim::run as run_shim;

use self::launch::{LaunchArgs, PlaceArgs, exec, exit_code, note};
use crate::ui::config::Verbosity;
use crate::ui::env;
use crate::ui::output::{ExitStatus, Output};

/// The details of opc.
const DETAILS: &str = "\
The result is that of the command: its files with their modes, what it writes to both outputs, its exit
status. It is taken from the store if all that a run would read now is as it was in a run before:
the compiler, the operator's Python and what it imports, kernel sources, headers, the parameter file, and
names that were looked for in vain. What a run reads is observed. Dates never count.

A command that fails is never stored, nor is one whose outputs are not a valid kernel. -v says what was
done, and why a result is not stored.

A build calls opc by its bare name: `opkeep shim install DIR` makes links for that, and PATH begins with
DIR. See docs/cann-packages.md.

Examples:
  opkeep opc -- asc_opc add.py --main_func=add --input_param=add.json --soc_version=Ascend910B1 --output=out
    compiles a kernel, or takes it from the store
  opkeep opc --root build=$PWD -- asc_opc ...
    gives the same result for a copy of this directory elsewhere";

/// Run CANN's opc or asc_opc, or take its result from the store
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    places: PlaceArgs,
    #[command(flatten)]
    launch: LaunchArgs,
    /// A link to this program stands before the command on PATH
    #[arg(long, hide = true)]
    behind_link: bool,
    /// The command: opc or asc_opc, by its path or its name on PATH, and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Returns the command line that runs this program by a link with the name of a compiler: `None` if it is run by another name.
pub(crate) fn of_link(line: &[OsString]) -> Option<Vec<OsString>> {
    let (program, args) = line.split_first()?;
    let name = Path::new(program).file_name()?;
    if !NAMES.iter().any(|known| name == *known) {
        return bisheng::of_link(name, args);
    }
    let start = ["opkeep", "opc", "--behind-link", "--"].map(OsString::from);
    Some(start.into_iter().chain([name.to_owned()]).chain(args.iter().cloned()).collect())
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    if !output.has_own_process() {
        bail!("`opc` forwards the outputs of a command, and so runs in a process of its own only");
    }
    let invocation = invocation(args)?;
    let opc = match args.launch.is_used() {
        true => Opc::read(invocation.clone()),
        false => return Err(exec(&invocation)),
    };
    match opc {
        Ok(opc) => run_task(opc, args, output),
        Err(reason) => {
            note_uncached(&reason, output);
            Err(exec(&invocation))
        }
    }
}

fn run_task(opc: Opc, args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let opc = opc.with_logs(args.places.logs());
    let (launcher, digests) = args.launch.open("opc", args.places.roots()?, output)?;
    let work_dir =
        TempDir::create_in(&env::temp_dir(), "opkeep-opc-").context("creating a work directory")?;
    // The command says what is wrong with its directory.
    let _ = opc.make_output_dir();
    let mut streams = launch::ProcessStreams;
    let ran = opc.with_task(work_dir.path(), |task| launcher.run(task, &mut streams));
    digests.save();
    launcher.cache().close();
    match ran {
        Ok(Ran { status, how }) => {
            note(&how, output);
            Ok(ExitStatus::OfCommand(exit_code(status)))
        }
        Err(error) if error.is_cancelled() => Ok(ExitStatus::Interrupted),
        Err(error) => Err(error.into()),
    }
}

/// The command with the real program.
fn invocation(args: &Args) -> anyhow::Result<Invocation> {
    let (name, rest) = args.command.split_first().context("no command is given")?;
    let mut env: Vec<_> = env::all_variables();
    let program = match Path::new(name).components().count() {
        1 => real(name, &mut env)?,
        _ => std::path::absolute(Path::new(name))?,
    };
    let dir = env::current_dir().context("the working directory cannot be read")?;
    Ok(Invocation { program, args: rest.to_vec(), env, dir })
}

/// The program on PATH that is not a link to this one. If one stands before it, the toolkit's root is set: the compiler derives it from
/// the first.
fn real(name: &OsStr, env: &mut Vec<(OsString, OsString)>) -> anyhow::Result<PathBuf> {
    let path =
        env.iter().find(|(variable, _)| variable == "PATH").map(|(_, path)| path.clone()).unwrap_or_default();
    let own = env::own_program().context("the path of this program cannot be read")?;
    let found = find_real(&Fs::new(), name, &path, &own).context("reading this program")?;
    let Some(real) = found else {
        bail!("`{}` is not on PATH, apart from links to this program", name.display());
    };
    if real.is_hidden {
        set_toolkit_root(env, &real.path);
    }
    // The operator's Python takes headers from beside the compiler that a search finds.
    let compiler =
        find_real(&Fs::new(), OsStr::new("bisheng"), &path, &own).context("reading this program")?;
    if let Some(compiler) = compiler.filter(|found| found.is_hidden) {
        set_real_path(env, &compiler.path);
    }
    Ok(std::path::absolute(&real.path)?)
}

fn note_uncached(reason: &NotCached, output: &Output) {
    if output.verbosity() > Verbosity::Normal {
        output.print_note(&format!("not cached: {reason}"));
    }
}

//! `opkeep bisheng`: runs a compiler of kernels, or takes its object from the store.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use opkeep_fs::{FileId, Fs};
use opkeep_launcher::bisheng::{Bisheng, LAUNCHER_NAME, NAMES, NotCached, Outcome};
use opkeep_launcher::shim::find_real;
use opkeep_launcher::{Invocation, Ran, Roots};

use super::launch::{self, LaunchArgs, exec, exit_code, note};
use crate::ui::config::Verbosity;
use crate::ui::env;
use crate::ui::output::{ExitStatus, Output};

/// The details of bisheng.
const DETAILS: &str = "\
The result is that of the command: the object with its mode, what it writes to both outputs, its exit
status. It is taken from the store if the compiler, the arguments, the variables and the preprocessed text
are as in a compile before. Comments, the lines on which code stands, and the directories of sources,
headers and the object count only where the object or a warning may show them.

A command that fails is never stored. Any command that is no plain compile of one source runs as it is; -v
says why.

opc starts one of these compilers for each tiling key: of a changed task, only the changed keys compile.
Builds run opkeep for it with ASCENDC_CCACHE_EXECUTABLE=DIR/opkeep-ccache, or by links on PATH: see
`opkeep shim install` and docs/cann-packages.md.

Examples:
  opkeep bisheng -- bisheng -c -O3 kernel.cpp --cce-aicore-lang --cce-aicore-only -o kernel.o
    compiles a kernel, or takes it from the store";

/// Run a compiler of kernels, bisheng or ccec, or take its object from the store
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    launch: LaunchArgs,
    /// The command: bisheng or ccec, by its path or its name on PATH, and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Returns the command line that runs this program by a link with the name of a compiler, or by that of a program before one. `None` if it
/// is run by another name.
pub(super) fn of_link(name: &OsStr, args: &[OsString]) -> Option<Vec<OsString>> {
    let start = ["opkeep", "bisheng", "--"].map(OsString::from).into_iter();
    if name == LAUNCHER_NAME {
        return Some(start.chain(args.iter().cloned()).collect());
    }
    let is_compiler = NAMES.iter().any(|known| name == *known);
    is_compiler.then(|| start.chain([name.to_owned()]).chain(args.iter().cloned()).collect())
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    if !output.has_own_process() {
        bail!("`bisheng` forwards the outputs of a command, and so runs in a process of its own only");
    }
    let invocation = invocation(&args.command)?;
    let bisheng = match args.launch.is_used() {
        true => Bisheng::read(invocation.clone()),
        false => return Err(exec(&invocation)),
    };
    let outcome = match bisheng {
        Ok(bisheng) => compile(&bisheng, args, output)?,
        Err(reason) => Outcome::NotCached(reason),
    };
    match outcome {
        Outcome::Ran(Ran { status, how }) => {
            note(&how, output);
            Ok(ExitStatus::OfCommand(exit_code(status)))
        }
        Outcome::NotCached(reason) => {
            note_uncached(&reason, output);
            Err(exec(&invocation))
        }
    }
}

fn compile(bisheng: &Bisheng, args: &Args, output: &Output) -> anyhow::Result<Outcome> {
    let (launcher, digests) = args.launch.open("bisheng", Roots::default(), output)?;
    let outcome = bisheng.compile(&launcher, &mut launch::ProcessStreams);
    digests.save();
    launcher.cache().close();
    Ok(outcome?)
}

/// The command with the real program. A path that leads to this program stands for the one behind it on PATH.
fn invocation(command: &[OsString]) -> anyhow::Result<Invocation> {
    let (name, rest) = command.split_first().context("no command is given")?;
    let own = env::own_program().context("the path of this program cannot be read")?;
    let id = |path: &Path| Fs::new().metadata(path).ok().map(|found| FileId::of(&found));
    let path = Path::new(name);
    let is_path = path.components().count() > 1;
    let program = match is_path && id(path) != id(&own) {
        true => path.to_owned(),
        false => on_path(path.file_name().unwrap_or(name), &own)?,
    };
    let dir = env::current_dir().context("the working directory cannot be read")?;
    Ok(Invocation {
        program: std::path::absolute(program)?,
        args: rest.to_vec(),
        env: env::all_variables(),
        dir,
    })
}

fn on_path(name: &OsStr, own: &Path) -> anyhow::Result<PathBuf> {
    let found = find_real(&Fs::new(), name, &env::variable("PATH").unwrap_or_default(), own);
    match found.context("reading this program")? {
        Some(real) => Ok(real.path),
        None => bail!("`{}` is not on PATH, apart from links to this program", name.display()),
    }
}

fn note_uncached(reason: &NotCached, output: &Output) {
    if output.verbosity() > Verbosity::Normal {
        output.print_note(&format!("not cached: {reason}"));
    }
}

//! What all commands have in common that run a compiler in the place of a build.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;

use anyhow::Context;
use opkeep::{CacheMode, FileDigestCache};
use opkeep_launcher::{FileCacheConfig, How, Invocation, Launcher, LauncherConfig, Roots, Stream, Streams};

use crate::config::checks::mode;
use crate::config::table::STORE_MODE;
use crate::flags::remote::RemoteArgs;
use crate::flags::store::StoreArgs;
use crate::flags::trust::TrustArgs;
use crate::setup::{self, remote_settings};
use crate::ui::config::Verbosity;
use crate::ui::env;
use crate::ui::output::Output;

/// The variables for builds, which give no flags.
const ROOTS: &str = "OPKEEP_ROOTS";
const IGNORED_VARIABLES: &str = "OPKEEP_IGNORED_VARIABLES";
const LOGS: &str = "OPKEEP_LOG_DIRS";

/// Directories of a build.
#[derive(Debug, clap::Args)]
pub(super) struct PlaceArgs {
    /// A directory that may lie elsewhere in another build, with a name for it
    ///
    /// Such as the build tree and the source tree. Results are the same wherever it lies, unless an output shows the path, a C text
    /// contains it, or a file beside it is used. The home directory is one by itself. [default: $OPKEEP_ROOTS, as in
    /// build=/x/build:source=/y]
    #[arg(long = "root", value_name = "NAME=DIR", value_parser = root)]
    roots: Vec<(String, PathBuf)>,
    /// A directory of logs: what a compiler writes there is no result
    ///
    /// CANN's own logs are known. [default: $OPKEEP_LOG_DIRS, separated by colons]
    #[arg(long = "log-dir", value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    logs: Vec<PathBuf>,
}

/// The store, and what counts in its keys.
#[derive(Debug, clap::Args)]
pub(super) struct LaunchArgs {
    /// A variable that does not count; with * at its end, all that begin like that
    ///
    /// All count but those that the command does not get, such as SHLVL or CI_JOB_ID, and the user's name. [default:
    /// $OPKEEP_IGNORED_VARIABLES, separated by commas]
    #[arg(long = "ignore-variable", value_name = "NAME")]
    variables: Vec<String>,
    /// How the store is used: enable, force, disable, read-only or require [default: enable]
    ///
    /// enable reads and writes; force compiles and replaces entries; disable runs the command as it is; read-only writes nothing;
    /// require needs a store that can be used.
    #[arg(long = "op_compiler_cache_mode", visible_alias = "cache-mode", value_name = "MODE", value_parser = mode)]
    cache_mode: Option<CacheMode>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    trust: TrustArgs,
}

impl PlaceArgs {
    pub(super) fn logs(&self) -> Vec<PathBuf> {
        let configured = || env::variable(LOGS).iter().flat_map(std::env::split_paths).collect();
        let logs: Vec<PathBuf> = if self.logs.is_empty() { configured() } else { self.logs.clone() };
        logs.into_iter().filter(|dir| dir.is_absolute()).collect()
    }

    /// The directories that may lie elsewhere.
    pub(super) fn roots(&self) -> anyhow::Result<Roots> {
        Ok(Roots::new(self.named()?)?)
    }

    fn named(&self) -> anyhow::Result<Vec<(String, PathBuf)>> {
        if !self.roots.is_empty() {
            return Ok(self.roots.clone());
        }
        let text = env::variable(ROOTS).unwrap_or_default();
        let text = text.to_str().with_context(|| format!("{ROOTS} is not a text"))?;
        let parts = text.split(':').filter(|part| !part.is_empty());
        parts.map(|part| root(part).map_err(|error| anyhow::anyhow!("{ROOTS}: {error}: `{part}`"))).collect()
    }
}

impl LaunchArgs {
    fn mode(&self) -> CacheMode {
        self.cache_mode.or_else(|| self.store.config.parsed(&STORE_MODE, mode)).unwrap_or_default()
    }

    /// Whether results are stored or looked up at all.
    pub(super) fn is_used(&self) -> bool {
        self.mode() != CacheMode::Disable
    }

    /// Opens the store for results of `tool`. A store that cannot be used is a warning with `-v`, since the command's outputs are replayed
    /// as they are.
    pub(super) fn open(
        &self,
        tool: &str,
        roots: Roots,
        output: &Output,
    ) -> anyhow::Result<(Launcher, Arc<FileDigestCache>)> {
        let mut cache = FileCacheConfig::new(setup::store(&self.store)?, tool).with_mode(self.mode());
        remote_settings(&self.remote, &self.trust)?.apply(&mut cache.cache)?;
        let digests = Arc::new(FileDigestCache::of_user(&env::temp_dir()));
        let mut config = LauncherConfig::new(cache, Arc::clone(&digests) as _);
        config.roots = roots;
        config.inert = self.variables();
        config.cancel = output.cancel_on_signal();
        Ok((Launcher::open(config)?, digests))
    }

    fn variables(&self) -> Vec<String> {
        if !self.variables.is_empty() {
            return self.variables.clone();
        }
        let text = env::variable(IGNORED_VARIABLES).unwrap_or_default().to_string_lossy().into_owned();
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }
}

/// Parses `NAME=DIR`. A relative directory is below the current one.
fn root(text: &str) -> Result<(String, PathBuf), String> {
    let expected = || "expected NAME=DIR, such as build=/x/build".to_owned();
    let (name, dir) = text.split_once('=').ok_or_else(expected)?;
    match (name.is_empty(), std::path::absolute(dir)) {
        (false, Ok(dir)) => Ok((name.to_owned(), dir)),
        _ => Err(expected()),
    }
}

/// The outputs of this process.
pub(super) struct ProcessStreams;

impl Streams for ProcessStreams {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        match stream {
            Stream::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()
            }
            Stream::Stderr => io::stderr().lock().write_all(bytes),
        }
    }
}

/// The exit code that a shell sees of a program that ended like this.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let of_signal = || status.signal().map(|signal| 128 + signal);
    status.code().or_else(of_signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Runs the command in the place of this process. Returns the error if that fails.
pub(super) fn exec(invocation: &Invocation) -> anyhow::Error {
    let program = invocation.program.display().to_string();
    anyhow::Error::new(invocation.exec()).context(format!("cannot run `{program}`"))
}

/// Says with `-v` where a result is from.
pub(super) fn note(how: &How, output: &Output) {
    if output.verbosity() > Verbosity::Normal {
        output.print_note(&match how {
            How::Hit => "taken from the store".to_owned(),
            How::Compiled => "compiled, and stored".to_owned(),
            How::NotKept(reason) => format!("compiled, and not stored: {reason}"),
            How::Uncached(reason) => format!("compiled, not cached: {reason}"),
        });
    }
}

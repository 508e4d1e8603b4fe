//! The order of a look-up, a run and what is kept of it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_digest::FileDigests;
use opkeep_embed::{
    CancelToken, FileCache, FileCacheConfig, FileGroup, FileKey, GroupClaim, GroupTicket, NewGroup, Options,
    TargetFiles,
};
use opkeep_fs::Fs;
use opkeep_process::{
    Before, Forwarded, ForwardingProcess, InheritedFiles, Learned, Observation, Observer, Sandbox,
    SignalRelay, Unkeyed,
};

use crate::environment::{self, HOLDS, OBSERVED, job_descriptors};
use crate::error::LauncherError;
use crate::exclusive::{Exclusive, HOLD_LIMIT};
use crate::key::{Machine, TaskKey};
use crate::manifest::Manifest;
use crate::reason::Reason;
use crate::record::{Recording, Run};
use crate::replay::Replay;
use crate::result::StoredResult;
use crate::roots::Roots;
use crate::state::States;
use crate::streams::{Capture, Streams};
use crate::task::Task;

/// The number of manifests of a task.
const MAX_MANIFESTS: usize = 16;

/// How often a look-up begins anew because another process has published a manifest.
const MAX_LOOKUPS: usize = 8;

/// How long an interrupted run may have taken if it is to be observed again.
const REPEATED: Duration = Duration::from_secs(60);
const MAX_REPEATS: usize = 8;

/// The failures by which a holder lets its waiters go on: they look up again, or run the command as well.
pub(crate) const LOOK_AGAIN: &str = "opkeep launcher: look up again";
pub(crate) const NOT_KEPT: &str = "opkeep launcher: not kept";

/// The name of the file in the group of a manifest.
const MANIFEST: &str = "manifest";

/// The private directories in a task's work directory.
const TEMPORARY: &str = "tmp";
const BYTE_CODE: &str = "pycache";

/// The settings of a launcher.
#[derive(Clone)]
#[non_exhaustive]
pub struct LauncherConfig {
    /// The store, its mode, the remote cache, and the namespace of the keys.
    pub cache: FileCacheConfig,
    /// Directories that may lie elsewhere in another build, such as the build tree and the source tree. The home directory is one by itself. They
    /// apply to tasks whose tool [is movable](crate::ToolFacts::is_movable).
    pub roots: Roots,
    /// Variables that a command gets although they do not count, such as the caller's own settings. A name may end with `*`.
    pub inert: Vec<String>,
    /// Digests of files.
    pub digests: Arc<dyn FileDigests>,
    /// Ends a wait, and kills a running command.
    pub cancel: CancelToken,
    /// Signals that a running command should receive.
    pub signals: SignalRelay,
}

impl LauncherConfig {
    /// Settings without roots.
    pub fn new(cache: FileCacheConfig, digests: Arc<dyn FileDigests>) -> Self {
        Self {
            cache,
            roots: Roots::default(),
            inert: Vec::new(),
            digests,
            cancel: CancelToken::new(),
            signals: SignalRelay::new(),
        }
    }
}

impl fmt::Debug for LauncherConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LauncherConfig")
            .field("cache", &self.cache)
            .field("roots", &self.roots)
            .field("inert", &self.inert)
            .finish_non_exhaustive()
    }
}

/// Runs commands whose results are kept.
#[derive(Debug)]
pub struct Launcher {
    config: LauncherConfig,
    cache: FileCache,
    machine: Machine,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Ran {
    /// Its exit status.
    pub status: ExitStatus,
    /// Where it is from.
    pub how: How,
}

/// Where a result is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// It was stored, and the command did not run.
    Hit,
    /// The command ran, and its result is stored now.
    Compiled,
    /// The command ran, and its result is not stored.
    NotKept(Reason),
    /// The command ran, and no result was looked for.
    Uncached(Reason),
}

/// The state of a look-up.
enum LookedUp {
    Hit,
    Missing {
        /// The manifests of the task, each with the key of the result now if it applies here.
        manifests: Vec<(Manifest, Option<FileKey>)>,
        /// The key of a stored result that cannot be used here: that of a run now replaces it.
        refused: Option<FileKey>,
    },
}

/// One task during a call.
struct Call<'a> {
    launcher: &'a Launcher,
    task: &'a Task<'a>,
    env: Vec<(OsString, OsString)>,
    roots: Roots,
    key: TaskKey,
    files: TargetFiles,
    exclusive: Exclusive,
}

/// A command that has ended.
struct Ended {
    forwarded: Forwarded,
    /// What it looked at and wrote; or why that is not known.
    seen: Result<Observation, Reason>,
    compile_time: Duration,
}

impl Launcher {
    /// Opens the cache. A store that cannot be used is a warning, and each command runs.
    ///
    /// # Errors
    /// The namespace is not valid, or the mode requires a store that cannot be used.
    pub fn open(config: LauncherConfig) -> Result<Self, LauncherError> {
        let cache = FileCache::open(config.cache.clone())?;
        Ok(Self { config, cache, machine: Machine::current() })
    }

    pub(crate) fn config(&self) -> &LauncherConfig {
        &self.config
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The cache, for its statistics and for uploads at the end.
    pub fn cache(&self) -> &FileCache {
        &self.cache
    }

    /// Returns the result of a command: a stored one, if all that a run would read now is as it was in a run before; otherwise that of a
    /// run. While another process runs the same command, this one waits for its result. A problem of the cache never fails a command.
    ///
    /// # Errors
    /// The cache cannot be used as its mode requires; or the command could not be started, or was cancelled.
    pub fn run(&self, task: &Task<'_>, io: &mut dyn Streams) -> Result<Ran, LauncherError> {
        let mut capture = Capture::new(io);
        let env = private_environment(environment::passed(&task.run.env, &task.run.dir), task.work_dir)?;
        let home = env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| home.as_os_str());
        let roots = match task.facts.is_movable {
            true => self.config.roots.of_run(home, task.work_dir),
            false => Roots::default().of_run(None, task.work_dir),
        };
        // The key has the environment that the programs get.
        let mut keyed = task.clone();
        keyed.run.env.clone_from(&env);
        let named = task.run.args.iter().find(|arg| names_descriptor(arg));
        let key = match named {
            Some(arg) => Err(Reason::DescriptorArgument(arg.to_string_lossy().into_owned())),
            None => TaskKey::of(&keyed, &roots, &self.config.inert, &self.machine, &*self.config.digests)
                .map_err(Reason::Unreadable),
        };
        let files = self.cache.target(&task.target)?;
        match key {
            Ok(key) => {
                let exclusive = Exclusive::hold(task, &files, &self.config.cancel)?;
                Call { launcher: self, task, env, roots, key, files, exclusive }.run(&mut capture)
            }
            Err(reason) => {
                let files = InheritedFiles::All;
                let status =
                    self.forward(task, &task.run.env, files, Sandbox::default(), &mut capture)?.status;
                Ok(Ran { status, how: How::Uncached(reason) })
            }
        }
    }

    pub(crate) fn forward(
        &self,
        task: &Task<'_>,
        env: &[(OsString, OsString)],
        files: InheritedFiles<'_>,
        sandbox: Sandbox<'_>,
        capture: &mut Capture<'_>,
    ) -> Result<Forwarded, LauncherError> {
        let environment: Vec<(&OsStr, &OsStr)> =
            env.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect();
        let process = ForwardingProcess {
            program: &task.run.program,
            args: &task.run.args,
            environment: &environment,
            dir: &task.run.dir,
            files,
            deadline: None,
            cancel: &self.config.cancel,
            signals: &self.config.signals,
            sandbox,
        };
        Ok(process.run(&mut |stream, bytes| capture.write(stream, bytes))?)
    }
}

impl Call<'_> {
    fn run(&self, capture: &mut Capture<'_>) -> Result<Ran, LauncherError> {
        for _ in 0..MAX_LOOKUPS {
            let (manifests, refused) = match self.look_up(capture)? {
                LookedUp::Hit => return Ok(hit()),
                LookedUp::Missing { manifests, refused } => (manifests, refused),
            };
            if refused.is_some() {
                return self.run_and_keep(&manifests, None, refused, capture);
            }
            let wanted = manifests.iter().rev().find_map(|(_, key)| key.clone());
            let is_result = wanted.is_some();
            if !is_result && manifests.len() == MAX_MANIFESTS {
                break;
            }
            let wanted = wanted.unwrap_or_else(|| self.key.manifest(manifests.len()));
            let mut options = Options::default().with_cancel(&self.launcher.config.cancel);
            options.hold_limit = HOLD_LIMIT;
            match self.files.get_or_begin(&wanted, &options)? {
                // A manifest, or a result that was published meanwhile.
                GroupClaim::Hit(group) if is_result => match self.replay(&group, capture) {
                    Ok(true) => return Ok(hit()),
                    _ => return self.run_and_keep(&manifests, None, Some(wanted), capture),
                },
                GroupClaim::Hit(_) => {}
                GroupClaim::Begin(ticket) | GroupClaim::Unshared(ticket, _) => {
                    return self.run_and_keep(&manifests, Some((ticket, wanted)), None, capture);
                }
                GroupClaim::HolderFailed(reason) if reason == LOOK_AGAIN => {}
                GroupClaim::HolderFailed(_) => break,
                GroupClaim::Cancelled => return Err(LauncherError::Cancelled),
                _ => break,
            }
        }
        let manifests =
            self.manifests(&States::new(self.task, &self.roots, &*self.launcher.config.digests))?;
        self.run_and_keep(&manifests, None, None, capture)
    }

    /// Looks for a result. One that is found is written and replayed.
    fn look_up(&self, capture: &mut Capture<'_>) -> Result<LookedUp, LauncherError> {
        let states = States::new(self.task, &self.roots, &*self.launcher.config.digests);
        let manifests = self.manifests(&states)?;
        let mut refused = None;
        for key in manifests.iter().filter_map(|(_, key)| key.as_ref()) {
            if let Some(group) = self.files.get(key)? {
                match self.replay(&group, capture) {
                    Ok(true) => return Ok(LookedUp::Hit),
                    _ => refused = Some(key.clone()),
                }
            }
        }
        Ok(LookedUp::Missing { manifests, refused })
    }

    /// The manifests of the task. One that cannot be decoded, such as that of a later version, has no key.
    fn manifests(&self, states: &States<'_>) -> Result<Vec<(Manifest, Option<FileKey>)>, LauncherError> {
        let mut manifests = Vec::new();
        for number in 0..MAX_MANIFESTS {
            let Some(group) = self.files.get(&self.key.manifest(number))? else { break };
            let manifest = group.get(MANIFEST).and_then(|bytes| Manifest::decode(bytes).ok());
            let key = manifest.as_ref().and_then(|manifest| self.key.result(manifest, states));
            manifests.push((manifest.unwrap_or_default(), key));
        }
        Ok(manifests)
    }

    /// Writes the outputs of a stored result and forwards its texts. Returns false if it cannot be used here.
    fn replay(&self, group: &FileGroup, capture: &mut Capture<'_>) -> io::Result<bool> {
        let Some(result) = StoredResult::of(group) else { return Ok(false) };
        let Some(replay) = Replay::of(&result, self.task, &self.roots) else { return Ok(false) };
        replay.write()?;
        // The outputs are there: a reader that is gone changes nothing of that.
        let _ = capture.replay(&replay.texts);
        Ok(true)
    }

    /// Runs the command, and publishes its result: with the ticket for `key`, or without one. A stored result under `refused` is replaced.
    fn run_and_keep(
        &self,
        manifests: &[(Manifest, Option<FileKey>)],
        ticket: Option<(GroupTicket, FileKey)>,
        refused: Option<FileKey>,
        capture: &mut Capture<'_>,
    ) -> Result<Ran, LauncherError> {
        let ended = self.run_observed(capture)?;
        let status = ended.forwarded.status;
        let (ticket, wanted) = ticket.unzip();
        let states = States::new(self.task, &self.roots, &*self.launcher.config.digests);
        let kept = self.record(&ended, capture, &states).and_then(|recording| {
            let wanted = wanted.as_ref().or(refused.as_ref());
            self.keep(recording, &states, manifests, ticket.as_ref(), wanted, ended.compile_time)
        });
        let how = match kept {
            Ok(()) => How::Compiled,
            Err(reason) => {
                ticket.iter().for_each(|ticket| drop(ticket.abandon(Some(NOT_KEPT))));
                How::NotKept(reason)
            }
        };
        Ok(Ran { status, how })
    }

    /// What is kept of a run.
    fn record(&self, ended: &Ended, capture: &Capture<'_>, states: &States<'_>) -> Result<Recording, Reason> {
        let Ended { forwarded, seen, compile_time: _ } = ended;
        let seen = seen.as_ref().map_err(Reason::clone)?;
        if !forwarded.status.success() {
            return Err(Reason::Failed);
        }
        let texts = capture.texts().ok_or(Reason::TooLarge)?;
        if capture.is_closed() {
            return Err(Reason::OutputClosed);
        }
        if !forwarded.is_complete {
            return Err(Reason::StillRunning);
        }
        Run { task: self.task, env: &self.env, roots: &self.roots, seen, texts }.record(states)
    }

    /// Publishes the result, and a new manifest if none fits.
    fn keep(
        &self,
        recording: Recording,
        states: &States<'_>,
        manifests: &[(Manifest, Option<FileKey>)],
        ticket: Option<&GroupTicket>,
        wanted: Option<&FileKey>,
        compile_time: Duration,
    ) -> Result<(), Reason> {
        self.exclusive.check()?;
        let Recording { manifest, result } = recording;
        let changed = || Reason::Changed(self.task.run.dir.clone());
        let is_new = manifests.iter().all(|(known, _)| *known != manifest);
        if !manifest.is_encodable() {
            return Err(Reason::TooLarge);
        }
        let key = self.key.result(&manifest, states).ok_or_else(changed)?;
        let record = result.record().ok_or(Reason::TooLarge)?;
        let files = result.files(&record);
        let mut group = NewGroup::new(files.iter().map(|(name, bytes)| (name.as_str(), *bytes)));
        group.kernel = &self.task.name;
        group.compile_time = Some(compile_time);
        let is_kept = match ticket.filter(|_| wanted == Some(&key)) {
            Some(ticket) => ticket.publish(&group),
            None => self.files.publish(&key, &group),
        };
        match is_kept {
            Ok(true) => {}
            Ok(false) => return Err(Reason::Store("it is only read, or there is none".to_owned())),
            Err(error) => return Err(Reason::Store(error.to_string())),
        }
        if is_new {
            self.publish_manifest(&manifest, manifests.len(), ticket.zip(wanted))?;
        }
        ticket.iter().for_each(|ticket| drop(ticket.abandon(Some(LOOK_AGAIN))));
        Ok(())
    }

    /// Publishes a manifest under the first free number from `number` on.
    fn publish_manifest(
        &self,
        manifest: &Manifest,
        mut number: usize,
        ticket: Option<(&GroupTicket, &FileKey)>,
    ) -> Result<(), Reason> {
        let store = |error: opkeep_embed::EmbedError| Reason::Store(error.to_string());
        let bytes = manifest.encode();
        // Another process may have published one in the meantime.
        while number < MAX_MANIFESTS {
            match self.files.get(&self.key.manifest(number)).map_err(store)? {
                Some(group) if group.get(MANIFEST) == Some(bytes.as_slice()) => return Ok(()),
                Some(_) => number += 1,
                None => break,
            }
        }
        // All are used: a new one replaces one of them, and only its results are lost.
        if number >= MAX_MANIFESTS {
            number = usize::from(manifest.digest().as_bytes()[0]) % MAX_MANIFESTS;
        }
        let key = self.key.manifest(number);
        let mut group = NewGroup::new([(MANIFEST, bytes.as_slice())]);
        group.kernel = &self.task.name;
        group.compile_time = Some(Duration::ZERO);
        match ticket.filter(|(ticket, wanted)| **wanted == key && ticket.is_held()) {
            Some((ticket, _)) => ticket.publish(&group).map_err(store)?,
            None => self.files.publish(&key, &group).map_err(store)?,
        };
        Ok(())
    }

    /// Runs the command under observation if this host allows it. A run in which a signal interrupted a call may have gone on as if a
    /// file were missing, and one may fail because it was observed: these are repeated, the last time unobserved. A run that has changed
    /// more than it changes again is never repeated, since a second one would find another state.
    fn run_observed(&self, capture: &mut Capture<'_>) -> Result<Ended, LauncherError> {
        let (launcher, work_dir) = (self.launcher, self.task.work_dir);
        let began = Instant::now();
        // No key covers what comes from other open files.
        let job_pipes = job_descriptors(&self.env);
        let files = InheritedFiles::Only(&job_pipes);
        let mut why = Reason::NotObservable;
        for repeat in 0..MAX_REPEATS {
            if repeat > 0 {
                capture.restart();
            }
            let started = if Observer::is_available() { Observer::start(work_dir).ok() } else { None };
            let Some(observer) = started else { break };
            let sandbox = Sandbox { observer: Some(&observer), domain: None };
            let run_began = Instant::now();
            let forwarded = launcher.forward(self.task, &self.env, files, sandbox, capture)?;
            let compile_time = run_began.elapsed();
            let seen = observer.finish();
            let has_failed = !forwarded.status.success();
            let may_succeed = seen.refused.is_some() || seen.incomplete.is_some();
            // Calls of another architecture fail, whatever the program makes of it.
            let is_disturbed = seen.is_interrupted() || seen.foreign.is_some() || has_failed && may_succeed;
            if !is_disturbed {
                return Ok(Ended { forwarded, seen: Ok(seen), compile_time });
            }
            why = match (&seen.foreign, &seen.refused) {
                (Some(program), _) => Reason::Foreign(program.clone()),
                (None, Some(program)) => Reason::RefusedCall(program.clone()),
                (None, None) => {
                    Reason::Incomplete(seen.error().map_or_else(String::new, |error| error.to_string()))
                }
            };
            if !forwarded.is_complete || !self.is_repeatable(&seen) {
                return Ok(Ended { forwarded, seen: Err(why), compile_time });
            }
            if !seen.is_interrupted() || began.elapsed() > REPEATED {
                break;
            }
        }
        capture.restart();
        let mut env = self.task.run.env.clone();
        env.push((HOLDS.into(), "1".into()));
        let forwarded = launcher.forward(self.task, &env, files, Sandbox::default(), capture)?;
        Ok(Ended { forwarded, seen: Err(why), compile_time: began.elapsed() })
    }

    /// Whether a second run has the same effect as the second alone: outside its work directory, the first one only replaced whole outputs, of
    /// a tool that replaces them whatever they are, and all that it did is known. A call that a signal ended had no effect.
    fn is_repeatable(&self, seen: &Observation) -> bool {
        let is_known = !seen.outlived && (seen.incomplete.is_none() || seen.is_interrupted());
        let is_device = |path: &Path, before: &Before| {
            before.found.is_special() && Unkeyed::covering(path).is_some_and(|unkeyed| unkeyed.is_volatile)
        };
        let is_replaced = |path: &Path, before: &Before| {
            let is_plain = before.found.is_nothing() || before.found.is_file();
            let replaces = self.task.facts.replaces_outputs && before.learned != Learned::State;
            replaces && is_plain && !before.found.is_link() && self.task.expects(path)
        };
        let is_harmless =
            |(path, before): (&PathBuf, &Before)| is_device(path, before) || is_replaced(path, before);
        let is_noted = |path: &PathBuf| seen.before.contains_key(path);
        is_known
            && seen.removed.is_empty()
            && seen.temporary.is_empty()
            && seen.peers.is_empty()
            && seen.written.keys().all(is_noted)
            && seen.before.iter().all(is_harmless)
    }
}

fn hit() -> Ran {
    Ran { status: ExitStatus::from_raw(0), how: How::Hit }
}

/// The environment of the command: temporary files lie in the work directory, and Python neither reads nor writes compiled modules,
/// whose validity depends on dates.
fn private_environment(
    env: Vec<(OsString, OsString)>,
    work_dir: &Path,
) -> Result<Vec<(OsString, OsString)>, LauncherError> {
    let dir = |name: &str| -> Result<PathBuf, LauncherError> {
        let path = work_dir.join(name);
        let created = Fs::new().create_dirs(&path, 0o700);
        created.map(|()| path.clone()).map_err(|source| LauncherError::Io { action: "create", path, source })
    };
    let set: [(&str, OsString); 4] = [
        (OBSERVED, "1".into()),
        ("TMPDIR", dir(TEMPORARY)?.into()),
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
        ("PYTHONPYCACHEPREFIX", dir(BYTE_CODE)?.into()),
    ];
    let others = env.into_iter().filter(|(name, _)| set.iter().all(|(own, _)| name != own));
    Ok(others.chain(set.iter().map(|(name, value)| (OsString::from(name), value.clone()))).collect())
}

/// Whether an argument names a descriptor that the command inherits, of which no key covers the data.
fn names_descriptor(arg: &OsStr) -> bool {
    ["/dev/fd/", "/dev/stdin", "/proc/self/fd/"]
        .iter()
        .any(|name| crate::roots::contains(arg.as_bytes(), name.as_bytes()))
}

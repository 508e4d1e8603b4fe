//! Commands whose key is complete before they run.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_embed::{FileGroup, FileKey, GroupClaim, GroupTicket, NewGroup, Options, TargetFiles};
use opkeep_process::{InheritedFiles, Sandbox};

use crate::error::LauncherError;
use crate::exclusive::{Exclusive, HOLD_LIMIT};
use crate::launcher::{How, LOOK_AGAIN, Launcher, NOT_KEPT, Ran};
use crate::reason::Reason;
use crate::replay::Replay;
use crate::result::StoredResult;
use crate::roots::Roots;
use crate::streams::{Capture, Streams};
use crate::task::Task;

/// The names of the keys in the store.
const NAMES: [&str; 2] = ["result by code", "result by place"];

/// A command, and two keys of its result.
pub(crate) struct KeyedTask<'a> {
    pub(crate) task: &'a Task<'a>,
    pub(crate) env: &'a [(OsString, OsString)],
    /// The names of its outputs.
    pub(crate) roots: &'a Roots,
    /// The key by what has no effect where the command runs. `None`: all counts.
    pub(crate) narrow: Option<Digest>,
    /// The key by everything. Computed when it is needed.
    ///
    /// An error is the reason why the result is not looked up and not kept.
    pub(crate) whole: &'a dyn Fn() -> Result<Digest, Reason>,
    /// What is kept of a run that has succeeded with these texts.
    pub(crate) settle: &'a Settle<'a>,
    /// Whether a stored result is what a run here would give.
    pub(crate) is_usable: &'a dyn Fn(&StoredResult) -> bool,
}

/// Judges a run that has succeeded by its texts; an error is the reason why its result is not kept.
pub(crate) type Settle<'a> = dyn Fn([&[u8]; 2]) -> Result<Settled, Reason> + 'a;

/// What is kept of a run.
pub(crate) struct Settled {
    pub(crate) result: StoredResult,
    /// Whether it holds wherever the command runs.
    pub(crate) is_everywhere: bool,
}

/// One command during a call.
struct Call<'a, 'k> {
    launcher: &'a Launcher,
    keyed: &'a KeyedTask<'k>,
    files: TargetFiles,
    exclusive: Exclusive,
}

impl Launcher {
    /// Returns the result of a command, as [`run`](Self::run) does, but by the keys that its adapter gives.
    ///
    /// # Errors
    /// As those of [`run`](Self::run).
    pub(crate) fn run_keyed(
        &self,
        keyed: &KeyedTask<'_>,
        io: &mut dyn Streams,
    ) -> Result<Ran, LauncherError> {
        let files = self.cache().target(&keyed.task.target)?;
        let exclusive = Exclusive::hold(keyed.task, &files, &self.config().cancel)?;
        Call { launcher: self, keyed, files, exclusive }.run(&mut Capture::new(io))
    }
}

impl Call<'_, '_> {
    fn run(&self, capture: &mut Capture<'_>) -> Result<Ran, LauncherError> {
        let Some(narrow) = self.keyed.narrow else { return self.run_by_place(None, capture) };
        match self.claim(&key(narrow, NAMES[0]))? {
            Claimed::Found(group) => self.replay_or_run(&group, capture),
            // A result with texts is kept by its place.
            Claimed::Ticket(ticket) => self.run_by_place(Some(ticket), capture),
            Claimed::LookAgain => self.run_by_place(None, capture),
            Claimed::NotKept => self.run_and_keep(None, None, capture),
        }
    }

    /// Looks for a result by everything. `ticket` is that of the narrow key.
    fn run_by_place(
        &self,
        ticket: Option<GroupTicket>,
        capture: &mut Capture<'_>,
    ) -> Result<Ran, LauncherError> {
        let Ok(whole) = (self.keyed.whole)() else { return self.run_and_keep(ticket, None, capture) };
        let whole = key(whole, NAMES[1]);
        match ticket {
            Some(ticket) => match self.files.get(&whole)? {
                Some(group) if self.replay(&group, capture).is_ok_and(|used| used) => {
                    drop(ticket.abandon(Some(LOOK_AGAIN)));
                    Ok(hit())
                }
                _ => self.run_and_keep(Some(ticket), None, capture),
            },
            None => match self.claim(&whole)? {
                Claimed::Found(group) => self.replay_or_run(&group, capture),
                Claimed::Ticket(ticket) => self.run_and_keep(None, Some(ticket), capture),
                Claimed::LookAgain | Claimed::NotKept => self.run_and_keep(None, None, capture),
            },
        }
    }

    fn claim(&self, key: &FileKey) -> Result<Claimed, LauncherError> {
        let mut options = Options::default().with_cancel(&self.launcher.config().cancel);
        options.hold_limit = HOLD_LIMIT;
        Ok(match self.files.get_or_begin(key, &options)? {
            GroupClaim::Hit(group) => Claimed::Found(group),
            GroupClaim::Begin(ticket) | GroupClaim::Unshared(ticket, _) => Claimed::Ticket(ticket),
            GroupClaim::HolderFailed(reason) if reason == LOOK_AGAIN => Claimed::LookAgain,
            GroupClaim::Cancelled => return Err(LauncherError::Cancelled),
            _ => Claimed::NotKept,
        })
    }

    fn replay_or_run(&self, group: &FileGroup, capture: &mut Capture<'_>) -> Result<Ran, LauncherError> {
        match self.replay(group, capture) {
            Ok(true) => Ok(hit()),
            _ => self.run_and_keep(None, None, capture),
        }
    }

    fn replay(&self, group: &FileGroup, capture: &mut Capture<'_>) -> io::Result<bool> {
        let Some(result) = StoredResult::of(group) else { return Ok(false) };
        let Some(replay) = Replay::of(&result, self.keyed.task, self.keyed.roots) else { return Ok(false) };
        if !(self.keyed.is_usable)(&result) {
            return Ok(false);
        }
        replay.write()?;
        // The output is there: a reader that is gone changes nothing of that.
        let _ = capture.replay(&replay.texts);
        Ok(true)
    }

    /// Runs the command and publishes its result. At most one ticket is given: for the narrow key, or for the whole one.
    fn run_and_keep(
        &self,
        narrow: Option<GroupTicket>,
        whole: Option<GroupTicket>,
        capture: &mut Capture<'_>,
    ) -> Result<Ran, LauncherError> {
        let began = Instant::now();
        let forwarded = self.launcher.forward(
            self.keyed.task,
            self.keyed.env,
            InheritedFiles::Only(&[]),
            Sandbox::default(),
            capture,
        )?;
        let compile_time = began.elapsed();
        let settled = match capture.texts() {
            _ if !forwarded.status.success() => Err(Reason::Failed),
            _ if capture.is_closed() => Err(Reason::OutputClosed),
            _ if !forwarded.is_complete => Err(Reason::StillRunning),
            Some(texts) => (self.keyed.settle)(texts),
            None => Err(Reason::TooLarge),
        };
        let kept = settled.and_then(|Settled { result, is_everywhere }| {
            let narrow_key = self.keyed.narrow.filter(|_| is_everywhere).map(|digest| key(digest, NAMES[0]));
            let is_narrow = narrow_key.is_some();
            let wanted = narrow_key.map_or_else(|| Ok(key((self.keyed.whole)()?, NAMES[1])), Ok)?;
            let ticket = if is_narrow { narrow.as_ref() } else { whole.as_ref() };
            self.publish(&result, &wanted, ticket, compile_time)
        });
        let word = if kept.is_ok() { LOOK_AGAIN } else { NOT_KEPT };
        narrow.iter().chain(&whole).for_each(|ticket| drop(ticket.abandon(Some(word))));
        let how = kept.map_or_else(How::NotKept, |()| How::Compiled);
        Ok(Ran { status: forwarded.status, how })
    }

    fn publish(
        &self,
        result: &StoredResult,
        key: &FileKey,
        ticket: Option<&GroupTicket>,
        compile_time: Duration,
    ) -> Result<(), Reason> {
        self.exclusive.check()?;
        let record = result.record().ok_or(Reason::TooLarge)?;
        let files = result.files(&record);
        let mut group = NewGroup::new(files.iter().map(|(name, bytes)| (name.as_str(), *bytes)));
        group.kernel = &self.keyed.task.name;
        group.compile_time = Some(compile_time);
        let is_kept = match ticket {
            Some(ticket) => ticket.publish(&group),
            None => self.files.publish(key, &group),
        };
        match is_kept {
            Ok(true) => Ok(()),
            Ok(false) => Err(Reason::Store("it is only read, or there is none".to_owned())),
            Err(error) => Err(Reason::Store(error.to_string())),
        }
    }
}

/// What a request for a result gives.
enum Claimed {
    Found(FileGroup),
    Ticket(GroupTicket),
    /// Another process has kept a result by another key.
    LookAgain,
    NotKept,
}

fn key(digest: Digest, name: &str) -> FileKey {
    FileKey::new(*digest.as_bytes()).with_name(name)
}

fn hit() -> Ran {
    Ran { status: ExitStatus::from_raw(0), how: How::Hit }
}

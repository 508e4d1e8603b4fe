//! Observes the files that a program looks at, by seccomp's user notification.
//!
//! Needs no privilege, and takes some microseconds for each call that names a file. The observer reads a call's effect
//! from its arguments, resolves names as the kernel does, and looks at the file before the call continues. A program
//! that changes its arguments in between deceives it: it guards against accidents of toolchains, not against attackers,
//! who could as well write another kernel.
//!
//! A signal that a program handles may end a call that waits for the observer, with an error that the call never has
//! otherwise: to a shell, the file is missing. [`ReportedCalls`](super::reported_calls) notices such calls; the observation
//! is incomplete then, and the run must be repeated ([`Observer::of_run`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use opkeep_fs::Fs;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::interpreter::program_interpreter;
use super::listening::{LastCall, is_ready, last_call, receive};
use super::listing::{digest_of_names, list};
use super::observation::{Found, in_order};
use super::own::Own;
use super::paths::{digest, resolved};
use super::proc::{link, process_of};
use super::reported_calls::ReportedCalls;
use super::response_files;
use super::writes::{Writes, just_now};
use super::{Observation, Program};
use crate::ffi::{Call, Listener, Received, Waiting, can_listen};

mod before;
mod changes;
mod created;
mod places;

/// How often a program is run whose calls a signal interrupts.
const MAX_RUNS: usize = 20;

/// The longest wait for the end of programs that were killed, or that end after the one which started them.
const END_TIME: Duration = Duration::from_millis(200);

/// A script may name a script as its interpreter, and so on; the kernel follows five.
const MAX_INTERPRETERS: usize = 6;

/// The observer of one run of a program. Put it into the run's [`Sandbox`](super::Sandbox), and call
/// [`finish`](Self::finish) when the run has ended.
#[derive(Debug)]
pub struct Observer {
    /// The child sends the descriptor of its reported calls through it.
    socket: Arc<OwnedFd>,
    /// Closed to end the thread.
    stop: io::PipeWriter,
    watch: Arc<Mutex<Watch>>,
    thread: JoinHandle<()>,
}

impl Observer {
    /// Waits for a program whose work directory is `work_dir`: its files there are not observed.
    ///
    /// # Errors
    /// No socket, pipe or thread can be created.
    pub fn start(work_dir: &Path) -> io::Result<Self> {
        let (ours, childs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let (stopped, stop) = io::pipe()?;
        let real = Fs::new().real_path(work_dir)?;
        let watch = Arc::new(Mutex::new(Watch {
            work_dirs: [work_dir.to_owned(), real],
            seen: Observation::default(),
            written: BTreeSet::new(),
            own: Own::default(),
            writes: Writes::default(),
            has_ended: false,
            since: just_now(),
            order: BTreeMap::new(),
            threads: BTreeMap::new(),
            began: Vec::new(),
            calls: ReportedCalls::default(),
            bound: BTreeSet::new(),
            plain_dirs: BTreeSet::new(),
            denied: None,
        }));
        let shared = Arc::clone(&watch);
        let observe = move || {
            if let Err(error) = observe(&shared, &ours, &stopped) {
                locked(&shared).miss(error);
            }
        };
        let thread = std::thread::Builder::new().name("observer".to_owned()).spawn(observe)?;
        Ok(Self { socket: Arc::new(childs), stop, watch, thread })
    }

    /// Observes one run of a program whose work directory is `work_dir`. Repeats a run in which a signal interrupted a
    /// call, up to 20 times: the program may have gone on as if a file were missing. `run` makes the work directory
    /// ready, too.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    pub fn of_run<T, E>(
        work_dir: &Path,
        run: impl Fn(&Self) -> Result<T, E>,
    ) -> io::Result<(Result<T, E>, Observation)> {
        let mut runs = 0;
        loop {
            let observer = Self::start(work_dir)?;
            let ended = run(&observer);
            let seen = observer.finish();
            runs += 1;
            // A run that was ended at its deadline is not repeated.
            if !seen.is_interrupted() || ended.is_err() || runs == MAX_RUNS {
                return Ok((ended, seen));
            }
        }
    }

    /// The observation since the last call, of a program that continues. It covers every system call that has returned.
    pub fn take(&self) -> Observation {
        locked(&self.watch).take()
    }

    /// Whether all programs have ended, after a wait of at most `most`: not only the one that started the others.
    pub fn has_ended(&self, most: Duration) -> bool {
        const STEP: Duration = Duration::from_millis(1);
        let began = Instant::now();
        loop {
            if locked(&self.watch).has_ended || self.thread.is_finished() {
                return true;
            }
            if began.elapsed() >= most {
                return false;
            }
            std::thread::sleep(STEP);
        }
    }

    /// Whether this host lets programs be observed, as far as that shows without a program.
    pub fn is_available() -> bool {
        can_listen()
    }

    /// The observation. From now on, a program that still runs is not observed, and its calls fail.
    pub fn finish(self) -> Observation {
        drop((self.stop, self.socket));
        let mut watch = match self.thread.join() {
            Ok(()) => locked(&self.watch),
            Err(_) => {
                let mut watch = locked(&self.watch);
                watch.miss(io::Error::other("the observer failed"));
                watch
            }
        };
        watch.take()
    }

    pub(crate) fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }
}

/// The state of the observer's thread.
#[derive(Debug)]
struct Watch {
    /// The work directory by its given path and by its real path.
    work_dirs: [PathBuf; 2],
    seen: Observation,
    /// Files that are opened for writing.
    written: BTreeSet<PathBuf>,
    /// Files and directories outside the work directory that the programs created.
    own: Own,
    /// Paths outside the work directory that the programs were about to write.
    writes: Writes,
    /// Whether no process is left that could make a call.
    has_ended: bool,
    /// The start of the observation, in nanoseconds since 1970: older files existed before.
    since: i64,
    /// The index of each process's current program, by process number.
    order: BTreeMap<i32, usize>,
    /// The process of each thread.
    threads: BTreeMap<i32, i32>,
    /// The process of each program.
    began: Vec<i32>,
    calls: ReportedCalls,
    /// The names of local sockets of the programs that are no paths.
    bound: BTreeSet<Vec<u8>>,
    /// Directories that are no links, and none is on the way to them.
    plain_dirs: BTreeSet<PathBuf>,
    /// The error with which the call fails that is looked at.
    denied: Option<i32>,
}

/// Observes each call until the program and all that it started have ended, or the caller stops it.
fn observe(watch: &Mutex<Watch>, socket: &OwnedFd, stopped: &io::PipeReader) -> io::Result<()> {
    if !is_ready(socket, stopped)? {
        return Ok(());
    }
    let Some(listener) = receive(socket)? else { return Ok(()) };
    while is_ready(&listener, stopped)? {
        if !observe_call(watch, &listener)? {
            locked(watch).calls.has_lost = true;
        }
    }
    let deadline = Instant::now() + END_TIME;
    loop {
        match last_call(&listener, deadline.saturating_duration_since(Instant::now()))? {
            // A call that is lost now belongs to a process that was killed.
            LastCall::Waits => drop(observe_call(watch, &listener)?),
            LastCall::Ended => break,
            LastCall::Running if Instant::now() < deadline => {}
            LastCall::Running => {
                locked(watch).seen.outlived = true;
                return Ok(());
            }
        }
    }
    locked(watch).has_ended = true;
    Ok(())
}

/// Observes the call that waits. Returns false if it has ended by itself before.
fn observe_call(watch: &Mutex<Watch>, listener: &Listener) -> io::Result<bool> {
    let waiting = match listener.receive()? {
        Received::Call(waiting) => waiting,
        Received::Nothing => return Ok(true),
        Received::Ended => return Ok(false),
    };
    // Locked until the answer, so that no observation is taken in which the call is missing.
    let mut guard = locked(watch);
    guard.calls.add(&waiting);
    let found = guard.look(&waiting);
    // The thread may be gone, and its number be another thread's by now.
    if listener.still_waits(&waiting)
        && let Err(error) = found
    {
        guard.miss(error);
    }
    let denied = guard.denied.take();
    if !listener.answer(&waiting, denied) && listener.may_be_interrupted() {
        guard.calls.unanswered.push(waiting);
    }
    Ok(true)
}

/// The error of an observation in which a call ended by itself: by a signal, after which the program may go on as if a
/// file were missing, or with its process.
fn interrupted() -> io::Error {
    rustix::io::Errno::INTR.into()
}

fn locked(watch: &Mutex<Watch>) -> MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    fn miss(&mut self, why: io::Error) {
        self.seen.incomplete.get_or_insert_with(|| Arc::new(why));
    }

    fn look(&mut self, waiting: &Waiting) -> io::Result<()> {
        if waiting.is_foreign() || waiting.is_refused() {
            let program = link(Path::new(&format!("/proc/{}/exe", waiting.thread)));
            let seen = if waiting.is_foreign() { &mut self.seen.foreign } else { &mut self.seen.refused };
            seen.get_or_insert(program.unwrap_or_default());
            return Ok(());
        }
        self.own.settle(waiting.thread, self.since);
        let call = waiting.call()?;
        match call {
            Call::Connect | Call::Bind => return self.name_sockets(waiting, call),
            // No path of a map means the same. Programs go on as on a kernel that lacks the call.
            Call::OpenInRoot => {
                self.denied = Some(libc::ENOSYS);
                return Ok(());
            }
            _ => {}
        }
        let name = waiting.name()?;
        let path = match self.resolve(waiting, waiting.dir(), name)? {
            Some(path) => path,
            // An open file gets a name: nothing is known of its content.
            None if call == Call::Rename => return self.rename(waiting, None),
            // The call means the open file itself, which was observed when it was opened, or is no file.
            None if call != Call::Exec => return Ok(()),
            None => return Err(io::Error::other("a program without a name was executed")),
        };
        let path = self.as_self_path(path);
        if matches!(call, Call::MakeSpecial | Call::Remove | Call::Rename) {
            self.plain_dirs.clear();
        }
        self.note_call(waiting, call, &path)?;
        match call {
            Call::Exec => self.execute(waiting, &path),
            Call::Open { flags } => self.open(waiting, path, flags),
            Call::Look => self.observe_look(waiting, path),
            Call::Change => self.change(waiting, path),
            Call::SetAttribute => self.refuse_attribute(waiting, path),
            Call::Connect | Call::Bind | Call::OpenInRoot => Ok(()),
            Call::MakeDirectory if Found::at(&path).is_nothing() => {
                self.add_written(&path, true);
                self.add_created(waiting, &path);
                Ok(())
            }
            // Another process holds this lock: the state of the path is recorded.
            Call::MakeDirectory => Ok(()),
            Call::MakeSpecial if Found::at(&path).is_nothing() => {
                self.add_written(&path, true);
                self.add_special(waiting, &path);
                Ok(())
            }
            Call::MakeSpecial => Ok(()),
            Call::Truncate => {
                self.add_written(&path, self.writes.is_whole(&path));
                Ok(())
            }
            Call::Remove => {
                let exists = Fs::new().symlink_metadata(&path).is_ok();
                if exists && !self.has_name_in_work_dir(&path) && !self.is_created_name(&path) {
                    self.writes.remove(path);
                }
                Ok(())
            }
            Call::Rename => {
                self.rename(waiting, Some(&path))?;
                // A file that is renamed into the work directory can be read there without being opened here.
                self.open(waiting, path, libc::O_RDONLY)
            }
        }
    }

    /// Records that the programs write a path, unless it is in the work directory.
    fn add_written(&mut self, path: &Path, is_whole: bool) {
        if !self.has_name_in_work_dir(path) {
            let path = self.recorded_path(path.to_owned());
            self.writes.add(&path, &Found::at(&path), is_whole);
        }
    }

    fn execute(&mut self, waiting: &Waiting, path: &Path) -> io::Result<()> {
        let found = Found::at(path);
        if !found.is_file() {
            // A step of the search along PATH.
            self.look_at(path.to_owned());
            return Ok(());
        }
        if found.gives_rights() {
            self.seen.refused.get_or_insert(path.to_owned());
        }
        let args = waiting.program_args()?;
        let dir = link(Path::new(&format!("/proc/{}/cwd", waiting.thread))).unwrap_or_default();
        let file_args = response_files::words(&args, &dir)?;
        let mut program = Program { path: path.to_owned(), args, file_args, ..Program::default() };
        let mut next = Some(path.to_owned());
        for _ in 0..MAX_INTERPRETERS {
            let Some(file) = next.take() else { break };
            if self.is_in_work_dir(&file) || self.is_created(&file) {
                program.intermediate.extend(digest(&file).ok());
            } else {
                let file = self.recorded_path(file.clone());
                self.read(file.clone(), Found::at(&file));
                program.read.push(file.clone());
            }
            match program_interpreter(&file)? {
                Some((interpreter, is_script)) => {
                    program.is_script |= is_script;
                    next = Some(interpreter);
                }
                None => break,
            }
        }
        let process = self.process(waiting)?;
        let before = self.order.get(&process).and_then(|at| self.seen.programs.get(*at));
        program.replaces_program = before.is_some_and(|before| !before.path.as_os_str().is_empty());
        self.add(process, program);
        Ok(())
    }

    fn open(&mut self, waiting: &Waiting, path: PathBuf, flags: i32) -> io::Result<()> {
        let replaces = flags & libc::O_ACCMODE == libc::O_WRONLY || flags & libc::O_TRUNC != 0;
        if flags & libc::O_ACCMODE != libc::O_RDONLY {
            self.written.insert(path.clone());
        }
        let found = Found::at(&path);
        // What comes through a pipe is another process's, too.
        let is_created = !found.is_special() && self.is_created(&path);
        let is_in_work_dir = self.is_in_work_dir(&path);
        let is_outside = match found.is_nothing() {
            true => !self.has_name_in_work_dir(&path),
            false => !is_in_work_dir,
        };
        if is_outside {
            self.writes.open(&self.recorded_path(path.clone()), flags, &found);
        }
        if is_created && found.is_directory() && !self.has_own_names_alone(&path)? {
            // Another process put files into it.
            return self.list(waiting, self.recorded_path(path));
        }
        if is_in_work_dir || is_created {
            if is_created && !replaces {
                self.seen.own.insert(path.clone());
            }
            if is_created && found.is_nothing() && flags & libc::O_CREAT != 0 {
                self.add_created(waiting, &path);
            }
            if !replaces && found.is_file() {
                let digest = digest(&path)?;
                self.program(waiting)?.intermediate.push(digest);
            }
            return Ok(());
        }
        let path = self.recorded_path(path);
        if flags & libc::O_ACCMODE == libc::O_WRONLY {
            self.write_special(&path, &found);
        }
        // A file that may be opened for reading without O_EXCL is read if another process creates it meanwhile.
        let creates = flags & libc::O_CREAT != 0 && (replaces || flags & libc::O_EXCL != 0);
        let appends = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL == 0 && replaces;
        if creates && found.is_nothing() {
            // The toolchain itself creates it, and may read back its own bytes.
            if flags & libc::O_ACCMODE == libc::O_RDWR {
                self.seen.own.insert(path.clone());
            }
            if flags & libc::O_EXCL != 0 {
                // The call fails if the file exists.
                self.program(waiting)?.looked_at.insert(path.clone());
                self.look_at(path.clone());
            }
            self.add_created(waiting, &path);
        } else if flags & libc::O_TRUNC != 0
            && flags & libc::O_EXCL == 0
            && found.is_file()
            && Fs::new().is_writable(&path)
        {
            self.add_truncated(&path);
        } else if appends && found.is_file() {
            // A log: the program does not learn whether it existed before.
        } else if replaces || found.is_nothing() || flags & libc::O_PATH != 0 {
            self.program(waiting)?.looked_at.insert(path.clone());
            self.look_at(path);
        } else if found.is_directory() {
            return self.list(waiting, path);
        } else {
            let program = self.program(waiting)?;
            if !program.read.contains(&path) {
                program.read.push(path.clone());
            }
            self.read(path, found);
        }
        Ok(())
    }

    /// Records a directory that is listed.
    fn list(&mut self, waiting: &Waiting, path: PathBuf) -> io::Result<()> {
        let names = list(&path)?;
        self.program(waiting)?.listed.insert(path.clone());
        self.seen.listed.insert(path.clone(), digest_of_names(&names));
        self.seen.names.entry(path).or_insert(names);
        Ok(())
    }

    /// Records a file that is opened for reading.
    fn read(&mut self, path: PathBuf, found: Found) {
        let before = self.seen.read.insert(path.clone(), found.clone());
        if before.is_some_and(|before| before != found) {
            self.seen.changed.insert(path);
        }
    }

    /// The path to record for a file outside the work directory: the real path if a link in the work directory, or in a
    /// directory that the programs created, leads to it, since the link's own path differs in each run.
    fn recorded_path(&self, path: PathBuf) -> PathBuf {
        let is_made = || path.parent().is_some_and(|parent| self.is_created(parent));
        match self.work_dirs.iter().any(|dir| path.starts_with(dir)) || is_made() {
            true => resolved(&path),
            false => path,
        }
    }

    fn observe_look(&mut self, waiting: &Waiting, path: PathBuf) -> io::Result<()> {
        self.seen.entered.extend(waiting.enters_directory().then(|| path.clone()));
        if !self.is_in_work_dir(&path) && !self.is_created(&path) {
            self.program(waiting)?.looked_at.insert(path.clone());
            self.look_at(path);
        }
        Ok(())
    }

    fn look_at(&mut self, path: PathBuf) {
        // The directories above the work directory exist as long as it does, and differ in another run.
        if self.work_dirs.iter().any(|dir| dir.starts_with(&path)) {
            return;
        }
        let found = Found::at(&path);
        let before = self.seen.looked_at.insert(path.clone(), found.clone());
        if before.is_some_and(|before| before != found) {
            self.seen.changed.insert(path);
        }
    }

    fn process(&mut self, waiting: &Waiting) -> io::Result<i32> {
        if let Some(process) = self.threads.get(&waiting.thread) {
            return Ok(*process);
        }
        let process = process_of(waiting.thread)?;
        self.threads.insert(waiting.thread, process);
        Ok(process)
    }

    /// The program that makes a call.
    fn program(&mut self, waiting: &Waiting) -> io::Result<&mut Program> {
        let process = self.process(waiting)?;
        let at = match self.order.get(&process) {
            Some(at) => *at,
            None => self.add(process, Program::default()),
        };
        self.seen.programs.get_mut(at).ok_or_else(|| io::Error::other("a program is missing"))
    }

    fn add(&mut self, process: i32, program: Program) -> usize {
        let at = self.seen.programs.len();
        self.seen.programs.push(program);
        self.began.push(process);
        self.order.insert(process, at);
        at
    }

    /// The observation since the last call.
    fn take(&mut self) -> Observation {
        let (mut seen, began) = (std::mem::take(&mut self.seen), std::mem::take(&mut self.began));
        if self.calls.take_incomplete() {
            seen.incomplete.get_or_insert_with(|| Arc::new(interrupted()));
        }
        // A missed call may affect all later observations, too.
        self.seen.incomplete.clone_from(&seen.incomplete);
        let written = &self.written;
        self.order.clear();
        self.threads.clear();
        seen.programs = in_order(began, std::mem::take(&mut seen.programs));
        let Observation { read, looked_at, temporary, .. } = &mut seen;
        // A temporary file, with another name in each run.
        let is_temporary = |path: &Path, found: &Found| {
            found.is_nothing() && self.own.contains(&resolved(path)) && Found::at(path).is_nothing()
        };
        temporary
            .extend(looked_at.extract_if(.., |path, found| is_temporary(path, found)).map(|(path, _)| path));
        for (path, found) in looked_at {
            if written.contains(path) {
                *found = found.clone().by_presence();
            } else if read.contains_key(path) {
                // It counts by content, but a program that looks at it may decide by its mode or its link.
                *found = found.clone().by_permissions();
            }
        }
        (seen.written, seen.removed) = self.writes.take(self.since);
        // Files that one job of a worker leaves behind do not belong to the next one.
        self.own.clear();
        self.written.clear();
        self.since = just_now();
        seen
    }
}

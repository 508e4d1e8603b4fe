//! An allocator that counts, processes that fork, close their files, change their user, or lack the means of confinement, and
//! signals that test programs are started to ignore.
#![expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait, whose calls go to the system's; a child is prepared between fork and exec; and signals \
              are handled before `main`"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static TIMES: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with counters. A test program that measures declares it as its `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

// SAFETY: all calls are forwarded to the system's allocator with the caller's arguments unchanged.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller satisfies the conditions of `GlobalAlloc`, which are those of the call.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        TIMES.fetch_add(1, Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller satisfies the conditions of `GlobalAlloc`, which are those of the call.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    // `realloc` is the trait's default: allocate, copy, free. So both pieces count while it lasts.
}

/// The result of `run`, and the largest number of bytes that it had allocated at a time.
///
/// # Panics
/// If [`Counting`] is not the program's allocator: then nothing would be counted, and every bound would hold.
pub fn most_bytes<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Relaxed);
    must_be_counting();
    MOST.store(before, Relaxed);
    let result = run();
    (result, MOST.load(Relaxed) - before)
}

/// The result of `run`, and the number of its allocations, including those that enlarge an earlier one.
///
/// # Panics
/// As [`most_bytes`].
pub fn allocations<T>(run: impl FnOnce() -> T) -> (T, usize) {
    must_be_counting();
    let before = TIMES.load(Relaxed);
    let result = run();
    (result, TIMES.load(Relaxed) - before)
}

fn must_be_counting() {
    assert_ne!(TIMES.load(Relaxed), 0, "`Counting` is not this program's allocator");
}

/// Runs `run` in a forked child of this process and waits for its end; returns whether it ended without a panic.
///
/// For test programs with one thread: a forked child has only the calling thread, and locks of others stay locked in
/// it.
///
/// # Panics
/// If no process can be started.
pub fn in_forked_child(run: impl FnOnce()) -> bool {
    fork(run, false).wait()
}

/// A forked child of this process.
#[derive(Clone, Copy, Debug)]
pub struct ForkedChild(libc::pid_t);

/// Runs `run` in a forked child of this process. Afterwards the child exits: as a program does, with its exit handlers, if
/// `runs_exit_handlers`, otherwise at once.
///
/// With other threads, `run` may allocate, but must use no lock that one of them may hold.
///
/// # Panics
/// If no process can be started.
pub fn fork(run: impl FnOnce(), runs_exit_handlers: bool) -> ForkedChild {
    // SAFETY: the child goes on with a copy of this thread, and exits below: it returns to no code of its caller.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork: {}", io::Error::last_os_error());
    if child == 0 {
        let status = i32::from(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
        // SAFETY: both end the process; the exit handlers are those of one that forked, which may exit like any other.
        match runs_exit_handlers {
            true => unsafe { libc::exit(status) },
            // SAFETY: as above.
            false => unsafe { libc::_exit(status) },
        }
    }
    ForkedChild(child)
}

impl ForkedChild {
    /// Its process number.
    pub fn id(self) -> i32 {
        self.0
    }

    /// Waits for its end; returns whether it ended without a panic.
    pub fn wait(self) -> bool {
        let mut status = 0;
        // SAFETY: `status` outlives the call, which writes an integer there.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        waited == self.0 && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

/// Closes all files of this process but its three standard ones, as a program does that becomes a daemon.
pub fn close_all_files() {
    // SAFETY: the test owns the files, whose owners must not take their numbers for theirs any more: that is what it checks.
    let failed = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
    assert_eq!(failed, 0, "{}", io::Error::last_os_error());
}

/// Makes this process one of the user `user`, who is not root.
///
/// # Panics
/// If this process may not do that.
pub fn become_user(user: u32) {
    // SAFETY: the call takes a number.
    let failed = unsafe { libc::setuid(user) };
    assert_eq!(failed, 0, "{}", io::Error::last_os_error());
}

/// Runs before `main` in every test program that uses this crate.
///
/// A shell starts programs in the background with an interrupt ignored, and `nohup` with a hang-up, and what they start inherits
/// that: the signals of tests would not reach the programs under test. A signal with a handler has its default action again
/// in a started program. So the handlers below do nothing: the test program itself goes on, as it was started to.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = handle_ignored_signals;

extern "C" fn handle_ignored_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        // SAFETY: zeros are a valid `sigaction`: the default action, no flags, no signal blocked. The calls read and write
        // only these two, which outlive them; the handler is async-signal-safe, since it does nothing.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), &raw mut before) == 0;
            if known && before.sa_sigaction == libc::SIG_IGN {
                let mut handled: libc::sigaction = std::mem::zeroed();
                handled.sa_sigaction = do_nothing as *const () as libc::sighandler_t;
                handled.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, &raw const handled, std::ptr::null_mut());
            }
        }
    }
}

extern "C" fn do_nothing(_signal: libc::c_int) {}

/// Makes the kernel kill the program of `command` when the thread that starts it ends for any reason.
pub(crate) fn end_with_parent(command: &mut Command) {
    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent was gone before the call, no signal comes.
        match getppid() == Some(parent) {
            true => Ok(()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: these are two system calls.
    unsafe { command.pre_exec(prepare) };
}

/// A means by which programs are confined, observed or started, and which a host may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Landlock: Linux before 5.13, or a container's policy.
    Landlock,
    /// Seccomp's user notification: Linux before 5.5, or a process that is already observed.
    Notification,
    /// Other processes: a limit on their number. Threads can still be started.
    Processes,
}

/// Makes the program of `command`, and all that it starts, see a host without these means.
pub fn without_means(command: &mut Command, means: &[Means]) {
    let filter = without(means);
    let prepare = move || {
        // SAFETY: this prctl takes numbers only.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        // SAFETY: `program` describes the filter, which both outlive the call; the kernel only reads it.
        match unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
        } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: these are two system calls, on memory that
    // was allocated before.
    unsafe { command.pre_exec(prepare) };
}

/// A filter that makes the calls of these means fail as on a host without them.
fn without(means: &[Means]) -> Vec<libc::sock_filter> {
    // Offsets in a filter's input: the call's number, and the lower halves of its first two arguments.
    const NUMBER: u32 = 0;
    const FIRST_ARGUMENT: u32 = 16;
    const SECOND_ARGUMENT: u32 = 24;
    let statement = |code: u32, value| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: value };
    let skip_unless = |test: u32, value, count| libc::sock_filter {
        code: (libc::BPF_JMP | test | libc::BPF_K) as u16,
        jt: 0,
        jf: count,
        k: value,
    };
    let load = |offset| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let fail = |errno: i32| statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32);
    let mut program = Vec::new();
    if means.contains(&Means::Landlock) {
        let number = libc::SYS_landlock_create_ruleset as u32;
        program.extend([load(NUMBER), skip_unless(libc::BPF_JEQ, number, 1), fail(libc::ENOSYS)]);
    }
    if means.contains(&Means::Notification) {
        let (number, flag) = (libc::SYS_seccomp as u32, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32);
        program.extend([load(NUMBER), skip_unless(libc::BPF_JEQ, number, 3), load(SECOND_ARGUMENT)]);
        program.extend([skip_unless(libc::BPF_JSET, flag, 1), fail(libc::EINVAL)]);
    }
    let allow = statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW);
    if means.contains(&Means::Processes) {
        // Without `clone3`, whose flags a filter cannot see, the C library uses `clone`.
        let number = libc::SYS_clone3 as u32;
        program.extend([load(NUMBER), skip_unless(libc::BPF_JEQ, number, 1), fail(libc::ENOSYS)]);
        #[cfg(target_arch = "x86_64")]
        for number in [libc::SYS_fork as u32, libc::SYS_vfork as u32] {
            program.extend([skip_unless(libc::BPF_JEQ, number, 1), fail(libc::EAGAIN)]);
        }
        let (number, flag) = (libc::SYS_clone as u32, libc::CLONE_THREAD as u32);
        program.extend([skip_unless(libc::BPF_JEQ, number, 4), load(FIRST_ARGUMENT)]);
        program.extend([skip_unless(libc::BPF_JSET, flag, 1), allow, fail(libc::EAGAIN)]);
    }
    program.push(allow);
    program
}

//! Seccomp's user notification: a system call that names a file waits until the observer has looked at it, then
//! continues.
//!
//! Linux 5.5 and later. The numbers and structures are those of `linux/seccomp.h`.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;

use rustix::net::SendFlags;

use super::calls::{Call, FIRST_UNKNOWN, REFUSED, UNSUPPORTED, WATCHED, arguments, kind};
use super::system_call::call;

/// The maximal length of a path (`PATH_MAX` of Linux), with its zero byte.
const MAX_PATH: usize = 4096;
/// The maximal number of arguments of a program that are read, and their maximal size together.
const MAX_ARGS: usize = 1 << 14;
const MAX_ARG_BYTES: usize = 1 << 22;
/// The maximal length of a socket's address (`struct sockaddr_storage`).
const MAX_ADDRESS: u64 = 128;
/// The maximal number of messages of one call (`UIO_MAXIOV`), and the size of each (`struct mmsghdr`).
const MAX_MESSAGES: u64 = 1024;
const MESSAGE_IN_LIST: u64 = 64;
/// The unit in which memory is readable or not.
const PAGE: u64 = 4096;

/// `AUDIT_ARCH_*` of `linux/audit.h`: the ELF machine, 64 bits, little-endian.
const ARCH: u32 = if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else if cfg!(target_arch = "riscv64") {
    0xc000_00f3
} else if cfg!(target_arch = "loongarch64") {
    0xc000_0102
} else {
    // No call is of this architecture: the program fails at once, and the caller takes another way.
    0
};

/// Calls of the x32 interface have this bit in their numbers.
const X32: u32 = 0x4000_0000;

/// `SECCOMP_IOCTL_NOTIF_SET_FLAGS` and its one flag.
const SET_FLAGS: libc::Ioctl = 0x4008_2104;
const SYNC_WAKE_UP: libc::c_ulong = 1;

/// The offsets in a filter's input (`struct seccomp_data`) of the number, of the architecture, and of the lower half of two arguments.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const THIRD_ARGUMENT: u32 = 32;

/// The flags of the message that has the listener's descriptor: it is sent when calls already wait, and no other message has these.
pub(super) const OF_LISTENER: SendFlags =
    SendFlags::NOSIGNAL.union(SendFlags::CONFIRM).union(SendFlags::DONTROUTE).union(SendFlags::EOR);

/// The filter: refused calls fail, by the observer if there is one; watched calls wait if there is one; all others continue. Calls of another architecture
/// name files in other ways: they are reported to the observer, and fail.
/// The listener's descriptor can be sent through the socket `observer`.
pub(crate) fn filter(observer: Option<RawFd>) -> Vec<libc::sock_filter> {
    let observed = observer.is_some();
    let load = |offset| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let give = |value| statement(libc::BPF_RET | libc::BPF_K, value);
    let refuse = |errno: i32| give(libc::SECCOMP_RET_ERRNO | errno as u32);
    let if_equal = |value, then, other| jump(libc::BPF_JEQ, value, then, other);
    let foreign = if observed { give(libc::SECCOMP_RET_USER_NOTIF) } else { refuse(libc::ENOSYS) };
    let mut program = vec![load(ARCHITECTURE), if_equal(ARCH, 1, 0), foreign, load(NUMBER)];
    program.extend([jump(libc::BPF_JGE, X32, 0, 1), foreign]);
    program.extend([jump(libc::BPF_JGE, FIRST_UNKNOWN, 0, 1), refuse(libc::ENOSYS)]);
    if let Some(observer) = observer {
        let sends =
            [if_equal(libc::SYS_sendmsg as u32, 0, 6), load(FIRST_ARGUMENT), if_equal(observer as u32, 0, 3)];
        program.extend(sends);
        program.extend([load(THIRD_ARGUMENT), if_equal(OF_LISTENER.bits(), 0, 1)]);
        program.extend([give(libc::SECCOMP_RET_ALLOW), load(NUMBER)]);
    }
    for &number in WATCHED.iter().filter(|_| observed) {
        program.extend([if_equal(number as u32, 0, 1), give(libc::SECCOMP_RET_USER_NOTIF)]);
    }
    // An observer records them, and lets them fail.
    let refused = if observed { give(libc::SECCOMP_RET_USER_NOTIF) } else { refuse(libc::EPERM) };
    for &number in REFUSED {
        program.extend([if_equal(number as u32, 0, 1), refused]);
    }
    for &number in UNSUPPORTED {
        program.extend([if_equal(number as u32, 0, 1), refuse(libc::EOPNOTSUPP)]);
    }
    program.push(give(libc::SECCOMP_RET_ALLOW));
    program
}

fn statement(code: u32, value: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}

fn jump(test: u32, value: u32, then: u8, other: u8) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_JMP | test | libc::BPF_K) as u16, jt: then, jf: other, k: value }
}

/// Sets `filter` for this thread and all that it starts, and returns the descriptor to which calls are reported.
/// Allocates nothing, since it runs between fork and exec.
///
/// A signal ends a call that waits, and the program sees an error that no such call has without an observer. Since
/// Linux 5.19 that can be limited to the time until the observer receives the call ([`Listener::receive`]).
pub(super) fn listen(filter: &[libc::sock_filter]) -> io::Result<(OwnedFd, Wait)> {
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let (fd, wait) = match set(filter, listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            (set(filter, listener)?, Wait::Interruptible)
        }
        set => (set?, Wait::Killable),
    };
    // SAFETY: the call gave a new descriptor that nothing else owns.
    Ok((unsafe { OwnedFd::from_raw_fd(fd as i32) }, wait))
}

/// Whether this process may set filters that report calls. The kernel checks permissions before the filter: only if it
/// permits them, it fails because the filter's address is null.
pub(crate) fn can_listen() -> bool {
    let (listener, nothing) = (libc::SECCOMP_FILTER_FLAG_NEW_LISTENER, std::ptr::null::<libc::sock_fprog>());
    // SAFETY: the kernel refuses the null pointer, and changes nothing.
    let set = call(|| unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, listener, nothing)
    });
    set.is_err_and(|error| error.raw_os_error() == Some(libc::EFAULT))
}

/// Sets `filter` for this thread and all that it starts. Allocates nothing.
pub(super) fn set(filter: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    call(|| {
        // SAFETY: `program` describes the filter, which both outlive the call; the kernel only reads it.
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) }
    })
}

/// What ends a call that was received, beside its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Wait {
    /// Any signal that is not ignored.
    Interruptible,
    /// The end of its process.
    Killable,
}

/// The descriptor to which calls are reported.
#[derive(Debug)]
pub(crate) struct Listener {
    fd: OwnedFd,
    wait: Wait,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What a [`Listener`] receives.
pub(crate) enum Received {
    /// A call that waits.
    Call(Waiting),
    /// A call was reported and has ended since: a signal interrupted it, or its process is gone.
    Ended,
    /// A signal interrupted this thread.
    Nothing,
}

/// A call that waits for an answer.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Its number: the kernel counts the calls of a filter from a number of its choice.
    pub(crate) id: u64,
    architecture: u32,
    /// The thread that makes it.
    pub(crate) thread: i32,
    number: libc::c_long,
    args: [u64; 6],
}

impl Listener {
    /// Makes the kernel run the observer on the processor of the waiting call: one of the two always waits for the
    /// other. Kernels before Linux 6.6 lack this flag and continue without it.
    pub(crate) fn new(fd: OwnedFd, wait: Wait) -> Self {
        // SAFETY: the descriptor is open, and this request takes the flags themselves.
        unsafe { libc::ioctl(fd.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) };
        Self { fd, wait }
    }

    /// Whether a signal may end a call that was received.
    pub(crate) fn may_be_interrupted(&self) -> bool {
        self.wait == Wait::Interruptible
    }

    /// The next call.
    pub(crate) fn receive(&self) -> io::Result<Received> {
        // SAFETY: the structure is of integers alone, for which zeros are values; the kernel wants it zeroed.
        let mut found: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open, and `found` is the structure that this request fills in.
        let got = call(|| unsafe {
            libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut found).into()
        });
        match got {
            Ok(_) => {
                let libc::seccomp_data { nr, arch: architecture, args, .. } = found.data;
                let (id, thread, number) = (found.id, found.pid as i32, nr.into());
                Ok(Received::Call(Waiting { id, architecture, thread, number, args }))
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Received::Ended),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(Received::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Whether the call still waits. Only then, the information that was read by its thread's number belongs to it.
    pub(crate) fn still_waits(&self, waiting: &Waiting) -> bool {
        let id = waiting.id;
        // SAFETY: the descriptor is open, and this request reads one number.
        call(|| unsafe {
            libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id).into()
        })
        .is_ok()
    }

    /// Lets the call continue, or lets it fail with `error`; a refused one and one of another architecture always fail. Returns whether the call still waited: if not, a
    /// signal has interrupted it, or its process is gone.
    pub(crate) fn answer(&self, waiting: &Waiting, error: Option<libc::c_int>) -> bool {
        // SAFETY: as above.
        let mut answer: libc::seccomp_notif_resp = unsafe { std::mem::zeroed() };
        answer.id = waiting.id;
        match error {
            _ if waiting.is_foreign() => answer.error = -libc::ENOSYS,
            _ if waiting.is_refused() => answer.error = -libc::EPERM,
            Some(error) => answer.error = -error,
            None => answer.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        }
        loop {
            // SAFETY: the descriptor is open, and `answer` is the structure that this request reads.
            let sent = call(|| unsafe {
                libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer).into()
            });
            match sent {
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                sent => return sent.is_ok(),
            }
        }
    }
}

impl Waiting {
    /// Whether `other` is this call again: a call that a signal interrupted may start anew.
    pub(crate) fn is_repeated_by(&self, other: &Self) -> bool {
        (self.thread, self.number, self.args) == (other.thread, other.number, other.args)
    }

    /// Whether its architecture is another, such as that of a 32-bit program.
    pub(crate) fn is_foreign(&self) -> bool {
        self.architecture != ARCH || self.number as u32 >= X32
    }

    /// Whether the call fails with "not permitted".
    pub(crate) fn is_refused(&self) -> bool {
        REFUSED.contains(&self.number)
    }

    /// The kind of the call.
    pub(crate) fn call(&self) -> io::Result<Call> {
        match self.number {
            libc::SYS_openat2 => self.kind_of_openat2(),
            number => Ok(kind(number, &self.args)),
        }
    }

    /// The descriptor of the directory that the name is relative to; `None` for the working directory.
    pub(crate) fn dir(&self) -> Option<i32> {
        let dir = arguments(self.number).dir.map(|at| self.args[at] as i32)?;
        (dir != libc::AT_FDCWD).then_some(dir)
    }

    /// The file's name as given; empty if the call means the descriptor itself.
    pub(crate) fn name(&self) -> io::Result<OsString> {
        match arguments(self.number).name.map(|at| self.args[at]) {
            None | Some(0) => Ok(OsString::new()),
            Some(address) => self.text(address, MAX_PATH),
        }
    }

    /// The new name that a call gives to a file, and the descriptor of the directory that it is relative to.
    pub(crate) fn new_name(&self) -> io::Result<(Option<i32>, OsString)> {
        let (dir, name) = match arguments(self.number).dir {
            Some(_) => (Some(self.args[2] as i32), self.args[3]),
            None => (None, self.args[1]),
        };
        Ok((dir.filter(|dir| *dir != libc::AT_FDCWD), self.text(name, MAX_PATH)?))
    }

    /// Whether a call that renames gives the old name to the file that had the new one.
    pub(crate) fn is_exchange(&self) -> bool {
        self.number == libc::SYS_renameat2 && self.args[4] & u64::from(libc::RENAME_EXCHANGE) != 0
    }

    /// Whether it changes the working directory.
    pub(crate) fn enters_directory(&self) -> bool {
        self.number == libc::SYS_chdir
    }

    /// Whether a call without a name executes or changes the file of its descriptor.
    pub(crate) fn means_descriptor(&self) -> bool {
        matches!(kind(self.number, &self.args), Call::Exec | Call::Change)
    }

    /// The arguments of the program that is to be executed.
    pub(crate) fn program_args(&self) -> io::Result<Vec<OsString>> {
        let list = self.args[if self.number == libc::SYS_execveat { 2 } else { 1 }];
        let (mut args, mut bytes) = (Vec::new(), 0);
        for at in 0..MAX_ARGS as u64 {
            let mut pointer = [0; 8];
            self.read(list.wrapping_add(8 * at), &mut pointer)?;
            let address = u64::from_ne_bytes(pointer);
            if address == 0 {
                return Ok(args);
            }
            let arg = self.text(address, MAX_ARG_BYTES - bytes)?;
            bytes += arg.len();
            args.push(arg);
        }
        Err(io::Error::other("a program has too many arguments to be observed"))
    }

    /// The addresses by which the call names the other ends of a socket, or the socket itself.
    pub(crate) fn addresses(&self) -> io::Result<Vec<Vec<u8>>> {
        let places = match self.number {
            libc::SYS_sendto => vec![(self.args[4], self.args[5])],
            libc::SYS_sendmsg => vec![self.place_of_address(self.args[1])?],
            libc::SYS_sendmmsg => {
                let messages = (0..self.args[2].min(MAX_MESSAGES)).map(|number| number * MESSAGE_IN_LIST);
                let places = messages.map(|at| self.place_of_address(self.args[1].wrapping_add(at)));
                places.collect::<io::Result<_>>()?
            }
            _ => vec![(self.args[1], self.args[2])],
        };
        let named = places.into_iter().filter(|(address, length)| *address != 0 && *length > 0);
        let read = named.map(|(address, length)| {
            let mut bytes = vec![0; length.min(MAX_ADDRESS) as usize];
            self.read(address, &mut bytes).map(|()| bytes)
        });
        read.collect()
    }

    /// The pointer to the address in a message, and the address's length (`struct msghdr`).
    fn place_of_address(&self, message: u64) -> io::Result<(u64, u64)> {
        let (mut address, mut length) = ([0; 8], [0; 4]);
        self.read(message, &mut address)?;
        self.read(message.wrapping_add(8), &mut length)?;
        Ok((u64::from_ne_bytes(address), u32::from_ne_bytes(length).into()))
    }

    fn kind_of_openat2(&self) -> io::Result<Call> {
        // `struct open_how`: flags, mode, how the path is resolved.
        let (mut flags, mut resolve) = ([0; 8], [0; 8]);
        self.read(self.args[2], &mut flags)?;
        self.read(self.args[2].wrapping_add(16), &mut resolve)?;
        Ok(match u64::from_ne_bytes(resolve) & libc::RESOLVE_IN_ROOT {
            0 => Call::Open { flags: u64::from_ne_bytes(flags) as i32 },
            _ => Call::OpenInRoot,
        })
    }

    /// The text at `address`, up to its zero byte.
    fn text(&self, address: u64, at_most: usize) -> io::Result<OsString> {
        let mut text = Vec::new();
        while text.len() < at_most {
            let from = address.wrapping_add(text.len() as u64);
            // The page after the text may be missing.
            let mut piece = vec![0; (PAGE - from % PAGE) as usize];
            self.read(from, &mut piece)?;
            if let Some(end) = piece.iter().position(|byte| *byte == 0) {
                text.extend_from_slice(&piece[..end]);
                return Ok(OsString::from_vec(text));
            }
            text.append(&mut piece);
        }
        Err(io::Error::other("an argument of a system call is too long to be observed"))
    }

    /// The mode that a call which opens or creates a file gives to a new one, before the umask.
    pub(crate) fn new_mode(&self) -> io::Result<u32> {
        Ok(match self.number {
            libc::SYS_openat2 => {
                let mut mode = [0; 8];
                self.read(self.args[2].wrapping_add(8), &mut mode)?;
                u64::from_ne_bytes(mode) as u32
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.args[2] as u32,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => self.args[1] as u32,
            _ => self.args[3] as u32,
        })
    }

    /// Whether a call that gives a file a name fails if that name exists.
    pub(crate) fn keeps_new_name(&self) -> bool {
        match self.number {
            libc::SYS_linkat => true,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => true,
            libc::SYS_renameat2 => self.args[4] & u64::from(libc::RENAME_NOREPLACE) != 0,
            _ => false,
        }
    }

    /// Fills `buffer` from the memory of the thread's process.
    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
        let got = call(|| {
            // SAFETY: `local` is all of `buffer`, which nothing else uses; `remote` is an address in the other process,
            // which the kernel checks and only reads.
            unsafe { libc::process_vm_readv(self.thread, &raw const local, 1, &raw const remote, 1, 0) as _ }
        })?;
        match got as usize == buffer.len() {
            true => Ok(()),
            false => Err(io::Error::other("an argument of a system call cannot be read")),
        }
    }
}

//! The resources that a child process used, as the kernel reports them at the end of the wait.
#![expect(unsafe_code, reason = "`wait4` is in no safe library that we have")]

use std::ffi::{c_int, c_long};
use std::io;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use std::os::unix::process::ExitStatusExt;

/// `struct timeval` of Linux with 64 bits.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Time {
    seconds: i64,
    micros: i64,
}

impl Time {
    fn duration(self) -> Duration {
        let part = |number: i64| u64::try_from(number).unwrap_or_default();
        Duration::from_secs(part(self.seconds)) + Duration::from_micros(part(self.micros))
    }
}

/// `struct rusage` of Linux.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Usage {
    user: Time,
    system: Time,
    most_resident_kilobytes: c_long,
    others: [c_long; 13],
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("`struct rusage` is described as Linux with 64 bits has it");

unsafe extern "C" {
    fn wait4(process: c_int, status: *mut c_int, options: c_int, usage: *mut Usage) -> c_int;
}

/// The status of a process, and the resources that it used.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// The processor time of it and of the children that it awaited.
    pub cpu: Duration,
    /// Its peak of resident memory, in bytes; at least that of this process, from which it was forked.
    pub most_resident: u64,
}

/// Waits for `child`.
///
/// # Errors
/// It was awaited before.
pub fn wait(child: Child) -> io::Result<Ended> {
    let process = c_int::try_from(child.id()).map_err(io::Error::other)?;
    let (mut status, mut usage) = (0, Usage::default());
    loop {
        // SAFETY: both pointers are to values that outlive the call, and have the sizes that the kernel expects.
        let ended = unsafe { wait4(process, &raw mut status, 0, &raw mut usage) };
        if ended == process {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(Ended {
        status: ExitStatus::from_raw(status),
        cpu: usage.user.duration() + usage.system.duration(),
        most_resident: u64::try_from(usage.most_resident_kilobytes).unwrap_or_default() * 1024,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn processes_are_distinguished() {
        let status = |code: &str| wait(Command::new("sh").args(["-c", code]).spawn().unwrap()).unwrap();
        assert_eq!(status("exit 3").status.code(), Some(3));
        // A text of 32 MiB.
        let large = status("x=$(head -c 33554432 /dev/zero | tr '\\0' x); test ${#x} = 33554432");
        assert!(large.status.success());
        assert!(large.most_resident > 32 << 20, "{large:?}");
        assert!(large.cpu > Duration::ZERO, "{large:?}");
        assert!(status("exit 0").most_resident < 32 << 20);
    }
}

//! Runs programs in a terminal.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, ExitStatus};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The number of columns of the terminal of [`shown_by`].
pub const COLUMNS: u16 = 100;

/// Runs `command` in a terminal; returns its status and all its output, with control sequences.
///
/// # Errors
/// No terminal is available, or the command does not start.
pub fn shown_by(command: Command) -> io::Result<(ExitStatus, String)> {
    shown_in(command, COLUMNS, 30)
}

/// The same in a terminal of that many `columns` and `rows`.
///
/// # Errors
/// No terminal is available, or the command does not start.
pub fn shown_in(mut command: Command, columns: u16, rows: u16) -> io::Result<(ExitStatus, String)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    tcsetwinsize(&master, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    let name = ptsname(&master, Vec::new())?.into_string().map_err(io::Error::other)?;
    // Without this flag it may become the controlling terminal of the tests, which would get a hangup when it closes.
    let own = OFlags::NOCTTY.bits().cast_signed();
    let screen = OpenOptions::new().read(true).write(true).custom_flags(own).open(name)?;
    command.env("TERM", "xterm").stdin(screen.try_clone()?).stdout(screen.try_clone()?).stderr(screen);
    let mut child = command.spawn()?;
    // As long as this copy is open, reading from the terminal does not end.
    drop(command);
    let (mut master, mut shown, mut buffer) = (File::from(master), Vec::new(), [0; 4096]);
    loop {
        match master.read(&mut buffer) {
            // The terminal's error after its last process has closed it.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => break,
            Ok(0) => break,
            Ok(read) => shown.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((child.wait()?, String::from_utf8_lossy(&shown).into_owned()))
}

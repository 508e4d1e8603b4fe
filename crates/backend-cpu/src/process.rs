//! Running the compiler: a clean environment, a deadline, bounded output, nothing left behind.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use opbuild_backend::{BackendError, Cancel};

use crate::{disk, ffi};

/// Output is kept up to this much from its beginning and as much from its end; a flood in between is read and dropped.
const KEPT: usize = 32 * 1024;
/// The end of the output that an error message shows.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: usize = 4 * 1024;

/// How long a program is left alone that has not closed its outputs; and one that has, at first.
const SELDOM: Duration = Duration::from_millis(20);
const SOONEST: Duration = Duration::from_micros(100);

/// A program that ended by itself.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// What it wrote to its outputs, both, bounded.
    pub(crate) output: String,
}

/// Where and how long a program may run.
pub(crate) struct Run<'a> {
    pub(crate) path: &'a OsStr,
    pub(crate) dir: &'a Path,
    /// Where its output is kept if it does not end in time.
    pub(crate) log: Option<&'a Path>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: &'a Cancel,
}

/// Runs `program` to its end, or to its deadline; then it and all its children are ended.
pub(crate) fn run(program: &Path, args: &[String], how: &Run<'_>) -> Result<Ended, BackendError> {
    let began = Instant::now();
    let mut command = Command::new(program);
    command.args(args).current_dir(how.dir).env_clear().process_group(0);
    command.env("PATH", how.path).env("TMPDIR", how.dir).env("LC_ALL", "C");
    ffi::die_with_us(&mut command);
    let cannot = |action| move |source| BackendError::Io { action, path: program.to_owned(), source };
    let (output, for_stdout) = std::io::pipe().map_err(cannot("make a pipe for"))?;
    let for_stderr = for_stdout.try_clone().map_err(cannot("make a pipe for"))?;
    command.stdin(Stdio::null()).stdout(for_stdout).stderr(for_stderr);
    // Started before the child, so that there is none if this fails.
    let (send, receive) = mpsc::channel();
    let reader = move || {
        // Nobody may be listening any more.
        let _ = send.send(drain(output));
    };
    std::thread::Builder::new().spawn(reader).map_err(cannot("start a thread for the output of"))?;
    let mut child = command.spawn().map_err(cannot("run"))?;
    // Closes our ends of the pipe; the reader would wait for them.
    drop(command);

    let mut output = None;
    let ended = wait(&child, how, &receive, &mut output);
    // While the program is not reaped its number cannot be another's, so this meets its own children only.
    end_group(&child);
    let status = child.wait();
    // A child that left the group could hold the pipe open: it does not hold us.
    let output = output.or_else(|| receive.recv_timeout(Duration::from_secs(2)).ok()).unwrap_or_default();
    match (ended, status) {
        (Some(Ok(())), Ok(status)) => Ok(Ended { status, output }),
        (Some(Err(source)), _) | (Some(Ok(())), Err(source)) => {
            Err(BackendError::Io { action: "wait for", path: program.to_owned(), source })
        }
        (None, _) if how.cancel.is_cancelled() => Err(BackendError::Cancelled),
        (None, _) => Err(BackendError::Deadline {
            command: shown(program, args),
            seconds: began.elapsed().as_secs_f64(),
            log_tail: tail(&output),
            log: how.log.and_then(|log| disk::keep_log(log, &output)),
        }),
    }
}

/// Waits for the end without reaping; `None` if the deadline passes or nobody waits any more.
///
/// A program that ends closes its outputs, and so do its children: until they are closed it is looked after now and then
/// only.
fn wait(
    child: &Child,
    how: &Run<'_>,
    outputs: &mpsc::Receiver<String>,
    output: &mut Option<String>,
) -> Option<std::io::Result<()>> {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw)?;
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let mut pause = SOONEST;
    loop {
        match waitid(WaitId::Pid(pid), look) {
            Ok(Some(_)) => return Some(Ok(())),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Some(Err(error.into())),
        }
        let now = Instant::now();
        if how.cancel.is_cancelled() || how.deadline.is_some_and(|deadline| now >= deadline) {
            return None;
        }
        let left = how.deadline.map_or(SELDOM, |deadline| deadline - now);
        match outputs.recv_timeout(SELDOM.min(left)) {
            Ok(closed) => *output = Some(closed),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            // They were closed before.
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                std::thread::sleep(pause.min(left));
                pause = (pause * 5 / 4).min(Duration::from_millis(4));
            }
        }
    }
}

fn end_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // The group is gone already, as a rule.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// Reads to the end, keeping the beginning and the end.
fn drain(mut output: impl Read) -> String {
    let mut head = Vec::new();
    let mut tail = std::collections::VecDeque::new();
    let mut dropped = 0usize;
    let mut buffer = [0; 8192];
    loop {
        match output.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                let (first, rest) = buffer[..n].split_at(n.min(KEPT - head.len()));
                head.extend_from_slice(first);
                tail.extend(rest);
                let over = tail.len().saturating_sub(KEPT);
                tail.drain(..over);
                dropped += over;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let mut text = String::from_utf8_lossy(&head).into_owned();
    if dropped > 0 {
        text.push_str(&format!("\n[... {dropped} bytes of output dropped ...]\n"));
    }
    text.push_str(&String::from_utf8_lossy(tail.make_contiguous()));
    text
}

/// The end of the output, for a message.
pub(crate) fn tail(output: &str) -> String {
    let output = output.trim_end();
    let from = output.ceil_char_boundary(output.len().saturating_sub(TAIL_BYTES));
    let lines: Vec<&str> = output[from..].lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// A command as one would type it.
pub(crate) fn shown(program: &Path, args: &[String]) -> String {
    let mut text = program.display().to_string();
    for arg in args {
        text.push(' ');
        text.push_str(arg);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floods_are_bounded_and_keep_both_ends() {
        let flood: Vec<u8> =
            [b"first line\n".to_vec(), vec![b'x'; 1 << 20], b"\nlast line".to_vec()].concat();
        let text = drain(&flood[..]);
        assert!(text.len() < 3 * KEPT);
        assert!(
            text.starts_with("first line")
                && text.ends_with("last line")
                && text.contains("bytes of output dropped")
        );
        assert!(tail(&text).len() <= TAIL_BYTES && tail(&text).ends_with("last line"));
    }

    #[test]
    fn short_output_is_whole() {
        assert_eq!(drain(&b"a\nb\n"[..]), "a\nb\n");
        assert_eq!(tail("a\nb\n"), "a\nb");
        let many: String = (0..100).map(|i| format!("{i}\n")).collect();
        assert_eq!(tail(&many).lines().count(), TAIL_LINES);
    }
}

//! A log of compiles, so that those of several processes can be counted.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A file to which any number of processes append a line for each compile that begins.
#[derive(Debug)]
pub struct CompileLog(File);

/// A compile that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCompile {
    /// The kernel's name.
    pub kernel: String,
    /// The process that compiled it.
    pub process: u32,
    /// Its start, since 1970.
    pub began: Duration,
}

impl CompileLog {
    /// The log in the file at `path`, created if missing.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().append(true).create(true).open(path).map(Self)
    }

    /// Adds a compile that starts now, in one write, so that lines of several processes do not mix.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&self, kernel: &str) -> io::Result<()> {
        let now = since_1970(SystemTime::now()).as_nanos();
        let line = format!("{now} {} {kernel}\n", std::process::id());
        let mut file = &self.0;
        match file.write(line.as_bytes())? {
            written if written == line.len() => Ok(()),
            _ => Err(ErrorKind::WriteZero.into()),
        }
    }

    /// The content of the log at `path`, in the order of writing.
    ///
    /// # Errors
    /// It cannot be read, or is malformed.
    pub fn read(path: &Path) -> io::Result<Vec<LoggedCompile>> {
        #[expect(clippy::disallowed_methods, reason = "reading the log is what this is for")]
        let text = std::fs::read_to_string(path)?;
        let broken = |line: &str| io::Error::new(ErrorKind::InvalidData, format!("no compile: `{line}`"));
        text.lines().map(|line| parse(line).ok_or_else(|| broken(line))).collect()
    }
}

fn parse(line: &str) -> Option<LoggedCompile> {
    let mut words = line.splitn(3, ' ');
    let began = Duration::from_nanos(words.next()?.parse().ok()?);
    let process = words.next()?.parse().ok()?;
    Some(LoggedCompile { began, process, kernel: words.next()?.to_owned() })
}

/// The time since 1970 in the resolution of a log.
pub fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_two_logs_on_one_file_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (first, second) = (CompileLog::open(&path).unwrap(), CompileLog::open(&path).unwrap());
        first.add("one").unwrap();
        second.add("two words").unwrap();
        first.add("three").unwrap();
        let found = CompileLog::read(&path).unwrap();
        let kernels: Vec<&str> = found.iter().map(|compile| compile.kernel.as_str()).collect();
        assert_eq!(kernels, ["one", "two words", "three"]);
        assert!(found.is_sorted_by_key(|compile| compile.began));
        assert!(found.iter().all(|compile| compile.process == std::process::id()));
        second.add("torn\nline").unwrap();
        assert_eq!(CompileLog::read(&path).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}

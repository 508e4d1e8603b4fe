//! The output of a program: all of it is read; its beginning and its end are kept.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opkeep_text::counted;

/// The number of bytes that are kept of the beginning, and of the end; the bytes between them are read and dropped.
const KEPT: usize = 32 * 1024;
/// The end of the output that an error message shows, in lines and in bytes.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: usize = 4 * 1024;

/// The output so far.
#[derive(Debug, Default)]
pub(crate) struct BoundedBuffer {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: usize,
}

impl BoundedBuffer {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(KEPT - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..over);
        self.dropped += over;
    }

    pub(crate) fn text(mut self) -> String {
        let mut bytes = self.head;
        if self.dropped > 0 {
            bytes
                .extend(format!("\n[... {} of output dropped ...]\n", counted(self.dropped, "byte")).bytes());
        }
        bytes.extend(self.tail.make_contiguous().iter());
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// The output of a running program; any thread may take it at any time.
#[derive(Clone, Default)]
pub struct Output(Arc<Mutex<BoundedBuffer>>);

impl Output {
    /// The output since the last call.
    pub fn take(&self) -> String {
        std::mem::take(&mut *self.bounded()).text()
    }

    /// Starts a thread that reads `from` to its end.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn follow(&self, from: impl Read + Send + 'static) -> std::io::Result<()> {
        let output = self.clone();
        std::thread::Builder::new().spawn(move || output.drain(from)).map(drop)
    }

    /// Reads to the end.
    fn drain(&self, mut from: impl Read) {
        let mut buffer = [0; 8192];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => self.bounded().add(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn bounded(&self) -> MutexGuard<'_, BoundedBuffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of the output, for an error message.
pub fn tail(output: &str) -> String {
    let output = output.trim_end();
    let from = output.ceil_char_boundary(output.len().saturating_sub(TAIL_BYTES));
    let lines: Vec<&str> = output[from..].lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// The maximum number of characters of an error line.
const LINE_LETTERS: usize = 300;

/// Returns the line of a program's output that states why it failed: the first with `error:`, otherwise the last one. A compiler
/// that reports that its linker failed is not the reason: the line before it is. Long lines are cut.
pub fn error_line(output: &str) -> Option<String> {
    let of_driver = ["ld returned", "linker command failed"];
    let lines = || {
        let lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.filter(|line| !of_driver.iter().any(|text| line.contains(text)))
    };
    let any = || output.lines().map(str::trim).rfind(|line| !line.is_empty());
    let is_error = |line: &&str| line.to_ascii_lowercase().contains("error:");
    let line = lines().find(is_error).or_else(|| lines().next_back()).or_else(any)?;
    Some(match line.char_indices().nth(LINE_LETTERS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_line_states_the_reason() {
        for (output, expected) in [
            ("", None),
            (" \n\n", None),
            (
                "Using built-in specs.\ncc: error: no such flag\ncc: fatal error: no input files\n",
                Some("cc: error: no such flag"),
            ),
            ("the moon\n  is full\n", Some("is full")),
            (
                "Traceback\n  x\nModuleNotFoundError: No module named 'x'\n",
                Some("ModuleNotFoundError: No module named 'x'"),
            ),
            (
                "ld: cannot find -lm\ncollect2: error: ld returned 1 exit status\n",
                Some("ld: cannot find -lm"),
            ),
            (
                "collect2: error: ld returned 1 exit status\n",
                Some("collect2: error: ld returned 1 exit status"),
            ),
        ] {
            assert_eq!(error_line(output).as_deref(), expected, "{output}");
        }
        let long = error_line(&"ä".repeat(5000)).unwrap();
        assert_eq!(long.chars().count(), LINE_LETTERS + 3);
    }

    fn drained(bytes: &[u8]) -> String {
        let output = Output::default();
        output.drain(bytes);
        output.take()
    }

    #[test]
    fn floods_are_bounded_and_keep_both_ends() {
        let flood: Vec<u8> =
            [b"first line\n".to_vec(), vec![b'x'; 1 << 20], b"\nlast line".to_vec()].concat();
        let text = drained(&flood);
        assert!(text.len() < 3 * KEPT);
        assert!(
            text.starts_with("first line")
                && text.ends_with("last line")
                && text.contains("bytes of output dropped")
        );
        assert!(tail(&text).len() <= TAIL_BYTES && tail(&text).ends_with("last line"));
    }

    #[test]
    fn short_output_is_complete() {
        assert_eq!(drained(b"a\nb\n"), "a\nb\n");
        assert_eq!(tail("a\nb\n"), "a\nb");
        let many: String = (0..100).map(|i| format!("{i}\n")).collect();
        assert_eq!(tail(&many).lines().count(), TAIL_LINES);
    }

    #[test]
    fn taken_output_is_not_returned_again() {
        let output = Output::default();
        output.drain(&b"one"[..]);
        assert_eq!(output.take(), "one");
        output.drain(&b"two"[..]);
        assert_eq!(output.take(), "two");
        assert_eq!(output.take(), "");
    }
}

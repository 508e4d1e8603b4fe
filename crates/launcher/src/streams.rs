//! The outputs of a command: forwarded as they come, and kept.

use std::io;

use opkeep_process::Stream;

/// The largest text of one output that is kept.
const MAX_TEXT: usize = 64 << 20;

/// Takes a command's outputs as they come.
pub trait Streams {
    /// Takes a part of an output.
    ///
    /// # Errors
    /// Its reader is gone: the command's writes fail from then on.
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()>;
}

/// The text of one output, over all runs of a command.
#[derive(Debug, Default)]
struct Text {
    /// The text of this run.
    kept: Vec<u8>,
    /// Whether the text of this run is too long to be kept.
    is_cut: bool,
    /// What was forwarded in an earlier run.
    sent: Vec<u8>,
    /// Whether this run has written the same so far, and how much of it.
    repeats: Option<usize>,
}

/// Forwards both outputs and keeps them. If a command is run again, only what differs from the earlier run is forwarded.
pub(crate) struct Capture<'a> {
    streams: &'a mut dyn Streams,
    texts: [Text; 2],
    is_closed: bool,
}

impl<'a> Capture<'a> {
    pub(crate) fn new(streams: &'a mut dyn Streams) -> Self {
        Self { streams, texts: [Text::default(), Text::default()], is_closed: false }
    }

    /// Whether the reader of an output was gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Begins another run of the command.
    pub(crate) fn restart(&mut self) {
        for text in &mut self.texts {
            let kept = std::mem::take(&mut text.kept);
            if kept.len() > text.sent.len() {
                text.sent = kept;
            }
            (text.is_cut, text.repeats) = (false, (!text.sent.is_empty()).then_some(0));
        }
    }

    /// Takes a part of an output of the present run.
    pub(crate) fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let text = &mut self.texts[usize::from(stream == Stream::Stderr)];
        match text.kept.len() + bytes.len() <= MAX_TEXT {
            true if !text.is_cut => text.kept.extend_from_slice(bytes),
            _ => (text.is_cut, text.kept) = (true, Vec::new()),
        }
        let rest = match text.repeats {
            None => bytes,
            Some(at) => {
                let same = text.sent[at..].iter().zip(bytes).take_while(|(one, other)| one == other).count();
                let is_repeat = same == bytes.len() && at + same < text.sent.len();
                text.repeats = is_repeat.then_some(at + same);
                &bytes[same..]
            }
        };
        let written = if rest.is_empty() { Ok(()) } else { self.streams.write(stream, rest) };
        self.is_closed |= written.is_err();
        written
    }

    /// The texts of the present run; `None` if one is too long.
    pub(crate) fn texts(&self) -> Option<[&[u8]; 2]> {
        let [out, err] = &self.texts;
        (!out.is_cut && !err.is_cut).then_some([&out.kept, &err.kept])
    }

    /// Forwards the texts of a stored result.
    pub(crate) fn replay(&mut self, texts: &[Vec<u8>; 2]) -> io::Result<()> {
        for (stream, text) in [Stream::Stdout, Stream::Stderr].into_iter().zip(texts) {
            if !text.is_empty() {
                self.streams.write(stream, text)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Sent(Vec<u8>);

    impl Streams for Sent {
        fn write(&mut self, _: Stream, bytes: &[u8]) -> io::Result<()> {
            self.0.extend_from_slice(bytes);
            Ok(())
        }
    }

    fn sent(runs: &[&[&str]]) -> String {
        let mut streams = Sent::default();
        let mut capture = Capture::new(&mut streams);
        for (number, run) in runs.iter().enumerate() {
            if number > 0 {
                capture.restart();
            }
            run.iter().for_each(|part| capture.write(Stream::Stdout, part.as_bytes()).unwrap());
            assert_eq!(capture.texts().unwrap()[0], run.concat().as_bytes());
        }
        String::from_utf8(streams.0).unwrap()
    }

    #[test]
    fn a_repeated_run_shows_only_what_differs() {
        assert_eq!(sent(&[&["one ", "two"]]), "one two");
        assert_eq!(sent(&[&["one "], &["on", "e two"]]), "one two");
        assert_eq!(sent(&[&["one two"], &["one ", "two"]]), "one two");
        assert_eq!(sent(&[&["one two"], &["one three"]]), "one twohree");
        assert_eq!(sent(&[&["one"], &["on"], &["one", " two"]]), "one two");
    }
}

//! What a server sends, in parts that the protocol bounds.

use std::io::{self, Read};

use opkeep_text::counted;

use super::failure::Failure;

/// The maximum length of the head of an answer, and of all lines between its chunks.
const LARGEST_HEAD: usize = 64 << 10;
const READ_SIZE: usize = 16 << 10;
/// The memory that is reserved for a body because of its stated length alone.
const MOST_RESERVED: u64 = 1 << 20;

/// Bytes that have arrived and are not used yet.
#[derive(Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    used: usize,
    /// Whether anything has arrived in this exchange.
    has_received: bool,
}

impl Buffer {
    pub(super) fn begin_exchange(&mut self) {
        self.has_received = false;
    }

    pub(super) fn has_received(&self) -> bool {
        self.has_received
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unused().is_empty()
    }

    fn unused(&self) -> &[u8] {
        self.bytes.get(self.used..).unwrap_or_default()
    }

    /// Uses up to `most` bytes.
    fn take(&mut self, most: usize) -> &[u8] {
        let begin = self.used;
        self.used = self.bytes.len().min(begin.saturating_add(most));
        &self.bytes[begin..self.used]
    }
}

/// Bytes from a server.
pub(super) struct Input<'a, R> {
    pub(super) source: R,
    pub(super) buffer: &'a mut Buffer,
}

impl<R: Read> Input<'_, R> {
    /// Waits for more bytes.
    fn read_more(&mut self) -> io::Result<()> {
        let Buffer { bytes, used, has_received } = &mut self.buffer;
        bytes.drain(..*used);
        *used = 0;
        let length = bytes.len();
        bytes.resize(length + READ_SIZE, 0);
        let read = self.source.read(&mut bytes[length..]);
        bytes.truncate(length + *read.as_ref().unwrap_or(&0));
        match read? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            _ => {
                *has_received = true;
                Ok(())
            }
        }
    }

    /// Reads up to `end`, which is included.
    fn until(&mut self, end: &[u8], what: &str) -> Result<Vec<u8>, Failure> {
        let mut searched: usize = 0;
        loop {
            let unused = self.buffer.unused();
            let from = searched.saturating_sub(end.len());
            let place = unused[from..].windows(end.len()).position(|bytes| bytes == end);
            if let Some(place) =
                place.map(|place| from + place + end.len()).filter(|end| *end <= LARGEST_HEAD)
            {
                return Ok(self.buffer.take(place).to_vec());
            }
            if unused.len() > LARGEST_HEAD {
                return Err(Failure::invalid(format!("{what} is longer than {LARGEST_HEAD} bytes")));
            }
            searched = unused.len();
            self.read_more()?;
        }
    }

    /// Reads the head of an answer, the blank line at its end included.
    pub(super) fn head(&mut self) -> Result<Vec<u8>, Failure> {
        self.until(b"\r\n\r\n", "the head of an HTTP answer")
    }

    /// Appends the next `length` bytes to `body`.
    pub(super) fn take(&mut self, length: u64, body: &mut Vec<u8>) -> io::Result<()> {
        let buffered = self.buffer.take(usize::try_from(length).unwrap_or(usize::MAX));
        let left = length - buffered.len() as u64;
        body.reserve(usize::try_from(length.min(MOST_RESERVED)).unwrap_or_default());
        body.extend_from_slice(buffered);
        let read = self.source.by_ref().take(left).read_to_end(body)? as u64;
        if read < left {
            let reason =
                format!("the server closed the connection {} before the end", counted(left - read, "byte"));
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
        }
        Ok(())
    }

    /// Appends all bytes until the end of the connection, `most` of them at most. Returns whether that were all.
    pub(super) fn take_all(&mut self, most: u64, body: &mut Vec<u8>) -> io::Result<bool> {
        body.extend_from_slice(self.buffer.take(usize::MAX));
        let left = (most + 1).saturating_sub(body.len() as u64);
        self.source.by_ref().take(left).read_to_end(body)?;
        Ok(body.len() as u64 <= most)
    }

    /// Appends the chunks of a body of `most` bytes at most. Returns whether that were all.
    pub(super) fn take_chunks(&mut self, most: u64, body: &mut Vec<u8>) -> Result<bool, Failure> {
        loop {
            let line = self.until(b"\r\n", "the head of a chunk")?;
            let length = match httparse::parse_chunk_size(&line) {
                // An empty line is a length of 0 to this parser.
                Ok(httparse::Status::Complete((_, length))) if line[0].is_ascii_hexdigit() => length,
                _ => return Err(Failure::invalid("the head of a chunk is no hexadecimal number")),
            };
            if length == 0 {
                return self.skip_trailers().map(|()| true);
            }
            if length > most.saturating_sub(body.len() as u64) {
                return Ok(false);
            }
            self.take(length, body)?;
            if self.until(b"\r\n", "the end of a chunk")?.len() != 2 {
                return Err(Failure::invalid("a chunk is longer than its head says"));
            }
        }
    }

    fn skip_trailers(&mut self) -> Result<(), Failure> {
        let mut skipped = 0;
        loop {
            let length = self.until(b"\r\n", "a trailer")?.len();
            skipped += length;
            match length {
                2 => return Ok(()),
                _ if skipped > LARGEST_HEAD => return Err(Failure::invalid("the trailers are too long")),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `read` on bytes that arrive in pieces of each size.
    fn in_pieces<T: PartialEq + std::fmt::Debug>(
        bytes: &[u8],
        read: impl Fn(&mut Input<'_, Pieces<'_>>) -> Result<T, Failure>,
    ) -> Result<T, String> {
        let mut answers = Vec::new();
        for size in [1, 2, 3, 7, usize::MAX] {
            let mut buffer = Buffer::default();
            let mut input = Input { source: Pieces { bytes, size }, buffer: &mut buffer };
            answers.push(read(&mut input).map_err(|failure| format!("{failure:?}")));
        }
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        answers.remove(0)
    }

    struct Pieces<'a> {
        bytes: &'a [u8],
        size: usize,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let (now, later) = self.bytes.split_at(self.bytes.len().min(self.size).min(buffer.len()));
            buffer[..now.len()].copy_from_slice(now);
            self.bytes = later;
            Ok(now.len())
        }
    }

    fn chunks(bytes: &str, most: u64) -> Result<(bool, String, String), String> {
        in_pieces(bytes.as_bytes(), |input| {
            let (mut body, mut rest) = (Vec::new(), Vec::new());
            let is_whole = input.take_chunks(most, &mut body)?;
            if is_whole {
                input.take_all(1000, &mut rest)?;
            }
            let text = |bytes| String::from_utf8(bytes).unwrap();
            Ok((is_whole, text(body), text(rest)))
        })
    }

    #[test]
    fn chunks_make_a_body() {
        let whole = |body: &str, rest: &str| Ok((true, body.to_owned(), rest.to_owned()));
        assert_eq!(chunks("0\r\n\r\n", 0), whole("", ""));
        assert_eq!(
            chunks("3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\na: b\r\n\r\nnext", 13),
            whole("abc0123456789", "next")
        );
        assert_eq!(chunks("3\r\n\r\na\r\n0\r\n\r\n", 13), whole("\r\na", ""));
        assert!(!chunks("3\r\nabc\r\n3\r\nabc\r\n0\r\n\r\n", 5).unwrap().0);
        assert!(!chunks("ffffffffffffffff\r\nabc", 1 << 40).unwrap().0);
        for cut in ["", "3", "3\r\nab", "3\r\nabc\r\n", "3\r\nabc\r\n0\r\n", "3\r\nabc\r\n0\r\na: b\r\n"] {
            assert!(chunks(cut, 100).unwrap_err().contains("UnexpectedEof"), "{cut:?}");
        }
        for bad in ["x\r\n", "\r\n", "-1\r\n", "3\r\nabcd\r\n0\r\n\r\n", "fffffffffffffffff\r\n"] {
            assert!(chunks(bad, 100).unwrap_err().starts_with("Invalid"), "{bad:?}");
        }
    }

    #[test]
    fn a_head_ends_with_a_blank_line() {
        let head = in_pieces(b"a\r\nb\r\n\r\nbody", |input| {
            let head = input.head()?;
            let mut body = Vec::new();
            input.take(4, &mut body)?;
            Ok((head, body))
        });
        assert_eq!(head, Ok((b"a\r\nb\r\n\r\n".to_vec(), b"body".to_vec())));
        assert!(in_pieces(b"a\r\nb", |input| input.head()).unwrap_err().contains("UnexpectedEof"));
        let mut buffer = Buffer::default();
        let source = io::repeat(b'x');
        let head = Input { source, buffer: &mut buffer }.head();
        assert!(matches!(head, Err(Failure::Invalid(reason)) if reason.contains("longer than")));
    }

    #[test]
    fn a_body_is_taken_as_a_whole() {
        let take = |length| {
            in_pieces(b"0123456789", |input| {
                let mut body = Vec::new();
                input.take(length, &mut body)?;
                Ok(body)
            })
        };
        assert_eq!(take(0), Ok(Vec::new()));
        assert_eq!(take(10), Ok(b"0123456789".to_vec()));
        assert!(take(11).unwrap_err().contains("1 byte before the end"));
        assert!(take(u64::MAX).unwrap_err().contains("UnexpectedEof"));
    }
}

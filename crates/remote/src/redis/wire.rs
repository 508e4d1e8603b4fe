//! Redis's protocol, version 2: requests are arrays of strings, answers are one of five types, which their first byte states.
//!
//! ```text
//! request  *2\r\n$4\r\nMGET\r\n$1\r\na\r\n
//! answer   *1\r\n$3\r\nabc\r\n        also: +OK\r\n  -ERR text\r\n  :1\r\n  $-1\r\n (nil)
//! ```

use std::io::{self, Read};

use opkeep_text::counted;

use super::error::{Failure, ServerError};
use crate::net::TLS_RECORDS;

/// The maximum size of a string, which is that of the server (`proto-max-bulk-len`).
pub(super) const LARGEST_STRING: usize = 512 << 20;
/// The maximum size of a string that is no object: a key, the value of a lease, a number.
pub(super) const LARGEST_WORD: usize = 64 << 10;
/// The maximum length of an array.
const LONGEST_ARRAY: usize = 1 << 20;
/// The maximum length of a line: an error's text, or a number.
const LONGEST_LINE: usize = 16 << 10;
/// The maximum depth of arrays in arrays. Our answers have two.
const DEEPEST: usize = 4;
/// The most that memory grows by before the bytes for it have arrived: the server states the length, and may lie.
const GROWTH: usize = 1 << 20;
const BUFFER: usize = 64 << 10;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Status(Vec<u8>),
    Integer(i64),
    String(Vec<u8>),
    Nil,
    Array(Vec<Reply>),
    Error(ServerError),
}

impl Reply {
    /// Returns the type's name, for errors.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Status(_) => "a status",
            Self::Integer(_) => "an integer",
            Self::String(_) => "a string",
            Self::Nil => "nothing",
            Self::Array(_) => "an array",
            Self::Error(_) => "an error",
        }
    }
}

/// Appends a request to `bytes`.
pub(super) fn write_request(bytes: &mut Vec<u8>, words: &[&[u8]]) {
    write_head(bytes, words.len());
    for word in words {
        write_word(bytes, word);
    }
}

/// Appends the head of a request of `words` words.
pub(super) fn write_head(bytes: &mut Vec<u8>, words: usize) {
    bytes.extend_from_slice(format!("*{words}\r\n").as_bytes());
}

/// Appends one word of a request.
pub(super) fn write_word(bytes: &mut Vec<u8>, word: &[u8]) {
    bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
    bytes.extend_from_slice(word);
    bytes.extend_from_slice(b"\r\n");
}

/// What has arrived and is not yet used.
pub(super) struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; BUFFER].into(), start: 0, end: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// Answers that come from `source`.
pub(super) struct Replies<'a, R> {
    pub(super) source: R,
    pub(super) buffer: &'a mut Buffer,
    /// What no error may contain.
    pub(super) password: Option<&'a str>,
}

impl<R: Read> Replies<'_, R> {
    /// Reads one answer, whose strings have at most `largest` bytes.
    pub(super) fn next(&mut self, largest: usize) -> Result<Reply, Failure> {
        self.nested(largest, 0)
    }

    /// Reads the head of an answer that is an array, and returns its length. Its elements follow.
    pub(super) fn array(&mut self) -> Result<usize, Failure> {
        match self.head()? {
            Head::Array(length) => Ok(length),
            Head::Whole(Reply::Error(error)) => Err(Failure::Server(error)),
            Head::Whole(reply) => Err(Failure::invalid(reply.kind(), "an array")),
            Head::String(_) => Err(Failure::invalid("a string", "an array")),
        }
    }

    fn nested(&mut self, largest: usize, depth: usize) -> Result<Reply, Failure> {
        match self.head()? {
            Head::Whole(reply) => Ok(reply),
            Head::String(length) if length > largest => Err(Failure::Invalid(format!(
                "expected at most {largest}, found {length}",
                largest = counted(largest, "byte")
            ))),
            Head::String(length) => Ok(Reply::String(self.string(length)?)),
            Head::Array(_) if depth == DEEPEST => {
                Err(Failure::Invalid("arrays are nested too deeply".to_owned()))
            }
            Head::Array(length) => {
                let mut replies = Vec::new();
                for _ in 0..length {
                    replies.push(self.nested(largest, depth + 1)?);
                }
                Ok(Reply::Array(replies))
            }
        }
    }

    fn head(&mut self) -> Result<Head, Failure> {
        // Another protocol may never send the end of a line.
        let kind = self.ready()?[0];
        if TLS_RECORDS.contains(&kind) {
            return Err(Failure::Invalid("the server demands TLS, and the URL is one without it".to_owned()));
        }
        if !b"+-:$*".contains(&kind) {
            return Err(Failure::Invalid(format!("an answer of the unknown type {kind:#04x}")));
        }
        let line = self.line()?;
        let text = &line[1..];
        Ok(match kind {
            b'+' => Head::Whole(Reply::Status(text.to_vec())),
            b'-' => Head::Whole(Reply::Error(ServerError::new(text, self.password))),
            b':' => Head::Whole(Reply::Integer(number(text)?)),
            _ => match (kind, number(text)?) {
                // No command that is sent answers with `*-1`.
                (b'$', -1) => Head::Whole(Reply::Nil),
                (b'$', length) => Head::String(usize::try_from(length).map_err(|_| negative())?),
                (_, length) => Head::Array(array_length(length)?),
            },
        })
    }

    /// Reads up to `\r\n`.
    fn line(&mut self) -> Result<Vec<u8>, Failure> {
        let mut line = Vec::new();
        loop {
            let ready = self.ready()?;
            let end = ready.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(ready.len(), |end| end + 1);
            line.extend_from_slice(&ready[..taken]);
            self.buffer.start += taken;
            if line.len() > LONGEST_LINE {
                return Err(Failure::Invalid(format!("a line is longer than {LONGEST_LINE} bytes")));
            }
            if end.is_some() {
                return match line.strip_suffix(b"\r\n") {
                    Some(line) => Ok(line.to_vec()),
                    None => Err(Failure::Invalid("a line does not end with CR and LF".to_owned())),
                };
            }
        }
    }

    /// Reads `length` bytes and `\r\n`.
    fn string(&mut self, length: usize) -> Result<Vec<u8>, Failure> {
        let mut string = Vec::with_capacity(length.min(GROWTH));
        while string.len() < length {
            let left = length - string.len();
            if self.buffer.is_empty() && left >= BUFFER {
                let (filled, more) = (string.len(), left.min(GROWTH));
                string.resize(filled + more, 0);
                self.source.read_exact(&mut string[filled..])?;
            } else {
                let ready = self.ready()?;
                let taken = left.min(ready.len());
                string.extend_from_slice(&ready[..taken]);
                self.buffer.start += taken;
            }
        }
        match self.line()?.is_empty() {
            true => Ok(string),
            false => Err(Failure::Invalid("a string does not end with CR and LF".to_owned())),
        }
    }

    /// Returns the bytes that have arrived, at least one.
    fn ready(&mut self) -> Result<&[u8], Failure> {
        let buffer = &mut *self.buffer;
        if buffer.is_empty() {
            (buffer.start, buffer.end) = (0, self.source.read(&mut buffer.bytes)?);
            if buffer.end == 0 {
                let text = "the server closed the connection";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text).into());
            }
        }
        Ok(&buffer.bytes[buffer.start..buffer.end])
    }
}

/// The first line of an answer.
enum Head {
    Whole(Reply),
    String(usize),
    Array(usize),
}

fn negative() -> Failure {
    Failure::Invalid("a length is negative".to_owned())
}

fn array_length(length: i64) -> Result<usize, Failure> {
    let length = usize::try_from(length).map_err(|_| negative())?;
    match length <= LONGEST_ARRAY {
        true => Ok(length),
        false => Err(Failure::Invalid(format!(
            "expected an array of at most {LONGEST_ARRAY} answers, found {length}"
        ))),
    }
}

fn number(text: &[u8]) -> Result<i64, Failure> {
    let is_number = text.strip_prefix(b"-").unwrap_or(text).iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(text).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
    number.ok_or_else(|| Failure::Invalid("a number that is none".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    fn replies(bytes: &[u8]) -> Result<Vec<Reply>, Failure> {
        fn all(source: impl Read, count: usize) -> Result<Vec<Reply>, Failure> {
            let mut buffer = Buffer::new();
            let mut replies = Replies { source, buffer: &mut buffer, password: None };
            let all = (0..count).map(|_| replies.next(LARGEST_STRING)).collect::<Result<_, _>>()?;
            assert!(replies.buffer.is_empty());
            Ok(all)
        }
        let count = if bytes.starts_with(b"+A") { 2 } else { 1 };
        let (at_once, in_drops) = (all(bytes, count), all(Drops(bytes), count));
        assert_eq!(format!("{at_once:?}"), format!("{in_drops:?}"));
        at_once
    }

    #[test]
    fn answers_of_all_types() {
        let whole = |bytes: &[u8]| replies(bytes).unwrap().remove(0);
        assert_eq!(whole(b"+OK\r\n"), Reply::Status(b"OK".to_vec()));
        assert_eq!(whole(b":-12\r\n"), Reply::Integer(-12));
        assert_eq!(whole(b"$-1\r\n"), Reply::Nil);
        assert_eq!(whole(b"$0\r\n\r\n"), Reply::String(Vec::new()));
        assert_eq!(whole(b"$4\r\n\r\n\r\n\r\n"), Reply::String(b"\r\n\r\n".to_vec()));
        assert_eq!(whole(b"-ERR no\r\n"), Reply::Error(ServerError::new(b"ERR no", None)));
        let nested = Reply::Array(vec![Reply::String(b"0".to_vec()), Reply::Array(vec![Reply::Nil])]);
        assert_eq!(whole(b"*2\r\n$1\r\n0\r\n*1\r\n$-1\r\n"), nested);
        assert_eq!(replies(b"+A\r\n:7\r\n").unwrap().len(), 2);
    }

    #[test]
    fn large_strings_come_back() {
        for length in [BUFFER - 1, BUFFER, GROWTH + BUFFER + 3] {
            let content: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            let mut bytes = Vec::new();
            write_word(&mut bytes, &content);
            let mut buffer = Buffer::new();
            let reply = Replies { source: bytes.as_slice(), buffer: &mut buffer, password: None }
                .next(LARGEST_STRING)
                .unwrap();
            assert!(reply == Reply::String(content), "{length}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for bytes in [
            b"?\r\n".as_slice(),
            b"\r\n",
            b"OK\r\n",
            b"HTTP/1.1 400 Bad Request\r\n",
            b"+OK\n",
            b":\r\n",
            b":+1\r\n",
            b":1a\r\n",
            b":99999999999999999999\r\n",
            b"$-2\r\n",
            b"*-1\r\n",
            b"$536870913\r\n",
            b"*1048577\r\n",
            b"$1\r\nab\r\n",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
            &[b'+'; LONGEST_LINE + 10],
        ] {
            assert!(
                matches!(replies(bytes), Err(Failure::Invalid(_))),
                "{:?}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn a_cut_answer_is_a_closed_connection() {
        let whole = b"*2\r\n$3\r\nabc\r\n:1\r\n";
        for end in 0..whole.len() {
            let failure = replies(&whole[..end]).unwrap_err();
            assert!(failure.is_disconnect(), "{end}: {failure:?}");
        }
        // A length that is a lie takes no memory.
        assert!(replies(b"$536870912\r\nabc").unwrap_err().is_disconnect());
        assert!(replies(b"*1048576\r\n").unwrap_err().is_disconnect());
    }

    #[test]
    fn requests_are_arrays_of_strings() {
        let mut bytes = Vec::new();
        write_request(&mut bytes, &[b"SET", b"a", b""]);
        assert_eq!(bytes, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n");
    }
}

//! One connection to a Redis server for the calls of many hosts, which do not wait for each other's answers.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Replaces the value of a lease that still has the token of `ARGV[1]`.
pub(crate) const RENEW: &str = "\
local value = redis.call('GET', KEYS[1])
if value and value:sub(1, 32) == ARGV[1]:sub(1, 32) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0";

/// Deletes a lease that still has the token `ARGV[1]`.
pub(crate) const RELEASE: &str = "\
local value = redis.call('GET', KEYS[1])
if value and value:sub(1, 32) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1";

/// Adds 1 to a counter that expires.
pub(crate) const ADVANCE: &str = "\
redis.call('INCRBY', KEYS[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1";

/// A connection whose calls do not block.
pub(crate) struct Pipeline {
    stream: TcpStream,
    output: Vec<u8>,
    written: usize,
    input: Vec<u8>,
    parsed: usize,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Reply {
    Nil,
    Number(i64),
    Text(Vec<u8>),
    Array(Vec<Reply>),
}

impl Pipeline {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self { stream, output: Vec::new(), written: 0, input: Vec::new(), parsed: 0 }
    }

    /// Begins a request of so many words.
    pub(crate) fn begin(&mut self, words: usize) {
        write!(self.output, "*{words}\r\n").unwrap();
    }

    /// Adds a word to the request.
    pub(crate) fn word(&mut self, word: &[u8]) {
        write!(self.output, "${}\r\n", word.len()).unwrap();
        self.output.extend_from_slice(word);
        self.output.extend_from_slice(b"\r\n");
    }

    /// Adds a word that [`encoded`] returned.
    pub(crate) fn encoded_word(&mut self, word: &[u8]) {
        self.output.extend_from_slice(word);
    }

    pub(crate) fn request(&mut self, words: &[&[u8]]) {
        self.begin(words.len());
        words.iter().for_each(|word| self.word(word));
    }

    /// Sends what the server takes, and reads what it has sent. Returns whether it did anything.
    pub(crate) fn exchange(&mut self) -> bool {
        let mut did_anything = false;
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("the server does not take requests: {error}"),
            }
            did_anything = true;
        }
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        }
        if self.parsed > 0 {
            self.input.drain(..self.parsed);
            self.parsed = 0;
        }
        let mut buffer = [0; 64 << 10];
        // What has arrived is handled before more is read.
        while self.input.len() < 1 << 20 {
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("the server has closed the connection"),
                Ok(read) => self.input.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("the server does not answer: {error}"),
            }
            did_anything = true;
        }
        did_anything
    }

    /// Returns the next answer, if it has arrived as a whole.
    pub(crate) fn reply(&mut self) -> Option<Reply> {
        let mut rest = &self.input[self.parsed..];
        let reply = parse(&mut rest)?;
        self.parsed = self.input.len() - rest.len();
        Some(reply)
    }
}

/// A word of a request, to be used often.
pub(crate) fn encoded(word: &str) -> Vec<u8> {
    format!("${}\r\n{word}\r\n", word.len()).into_bytes()
}

fn parse(rest: &mut &[u8]) -> Option<Reply> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, after) = rest.split_at(end);
    *rest = &after[2..];
    let text = str::from_utf8(&line[1..]).unwrap();
    let number = || text.parse::<i64>().unwrap();
    Some(match line[0] {
        b':' => Reply::Number(number()),
        b'+' => Reply::Text(text.into()),
        b'$' | b'*' if number() < 0 => Reply::Nil,
        b'$' => {
            let length = usize::try_from(number()).unwrap();
            let content = rest.get(..length + 2)?;
            *rest = &rest[length + 2..];
            Reply::Text(content[..length].to_vec())
        }
        b'*' => {
            let count = usize::try_from(number()).unwrap();
            Reply::Array((0..count).map(|_| parse(rest)).collect::<Option<_>>()?)
        }
        _ => panic!("the server refused a request: {text}"),
    })
}

//! One connection to a server.

use std::io::Write;

use opkeep_cache::RemoteContext;
use opkeep_text::counted;

use super::answer::{Answer, BodyEnd};
use super::failure::Failure;
use super::input::{Buffer, Input};
use super::request::Request;
use crate::net::{Idle, Limited, Stream};

/// The size of a body that is sent together with its head.
const SMALL_BODY: usize = 64 << 10;
/// The size of an error's text that is read.
const LARGEST_ERROR: u64 = 64 << 10;
/// The number of answers such as `100 Continue` before the one that counts.
const MOST_INTERIM: usize = 8;

pub(super) struct Connection {
    stream: Stream,
    buffer: Buffer,
}

/// The end of an exchange whose answer has arrived.
pub(super) struct Exchanged {
    pub(super) answer: Answer,
    /// Whether the connection can be used for another one.
    pub(super) is_reusable: bool,
}

impl Idle for Connection {
    fn is_idle(&mut self) -> bool {
        self.buffer.is_empty() && !self.stream.has_input()
    }
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, buffer: Buffer::default() }
    }

    /// Whether a part of the last exchange's answer has arrived.
    pub(super) fn has_received(&self) -> bool {
        self.buffer.has_received()
    }

    /// Sends a request and reads its answer, whose body has `largest` bytes at most.
    pub(super) fn exchange(
        &mut self,
        head: &[u8],
        request: &Request<'_>,
        largest: u64,
        context: &RemoteContext<'_>,
    ) -> Result<Exchanged, Failure> {
        self.buffer.begin_exchange();
        let mut stream = self.stream.within(context);
        let sent = send(&mut stream, head, request.body);
        let mut input = Input { source: stream, buffer: &mut self.buffer };
        let Err(failure) = sent else { return receive(&mut input, request.method, largest) };
        if !failure.is_disconnect() {
            return Err(failure);
        }
        // A server that refuses a large body answers, and closes the connection before it has read all.
        match receive(&mut input, request.method, largest) {
            Ok(Exchanged { answer, .. }) if !answer.is_success() => {
                Ok(Exchanged { answer, is_reusable: false })
            }
            _ => Err(failure),
        }
    }
}

fn send(stream: &mut Limited<'_>, head: &[u8], body: &[u8]) -> Result<(), Failure> {
    if body.len() <= SMALL_BODY {
        stream.write_all(&[head, body].concat())?;
    } else {
        stream.write_all(head)?;
        stream.write_all(body)?;
    }
    Ok(stream.flush()?)
}

fn receive(input: &mut Input<'_, Limited<'_>>, method: &str, largest: u64) -> Result<Exchanged, Failure> {
    for _ in 0..MOST_INTERIM {
        let (mut answer, version) = Answer::parse(&input.head()?)?;
        // 101 would change the protocol, which no request asks for.
        if matches!(answer.status, 100 | 102..200) {
            continue;
        }
        let most = if answer.is_success() { largest } else { LARGEST_ERROR };
        let (is_whole, is_delimited) = match answer.body_end(method)? {
            None => (true, true),
            Some(BodyEnd::Length(length)) if length > most && answer.is_success() => (false, false),
            Some(BodyEnd::Length(length)) => {
                input.take(length.min(most), &mut answer.body)?;
                (length <= most, true)
            }
            Some(BodyEnd::Chunked) => (input.take_chunks(most, &mut answer.body)?, true),
            Some(BodyEnd::Connection) if answer.is_success() => {
                return Err(Failure::invalid("an HTTP answer does not state its length"));
            }
            Some(BodyEnd::Connection) => (input.take_all(most, &mut answer.body)?, false),
        };
        if answer.is_success() && !is_whole {
            return Err(Failure::invalid(format!(
                "an HTTP answer is larger than {most}",
                most = counted(most, "byte")
            )));
        }
        let is_reusable = is_whole && is_delimited && answer.keeps_connection(version);
        return Ok(Exchanged { answer, is_reusable });
    }
    Err(Failure::invalid(format!("{MOST_INTERIM} answers before the one that counts")))
}

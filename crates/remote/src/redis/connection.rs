//! One connection to a Redis server.

use std::io::Write;

use opkeep_cache::{RemoteContext, RemoteError};

use super::error::{Failure, ServerError};
use super::wire::{Buffer, LARGEST_STRING, LARGEST_WORD, Replies, Reply, write_request};
use crate::net::{Connector, Idle, Limited, Stream};
use crate::url::{RedisUrl, Secret};

/// A connection whose user is authenticated and whose database is selected.
pub(super) struct Connection {
    stream: Stream,
    buffer: Buffer,
    exchange: Exchange,
    password: Option<Secret>,
}

/// What was exchanged in a call.
#[derive(Default)]
struct Exchange {
    /// Whether anything has arrived.
    has_received: bool,
    /// The number of answers that were requested and have not been read.
    awaited: usize,
}

impl Connection {
    /// Connects, and presents the URL's password.
    pub(super) fn open(
        connector: &Connector,
        url: &RedisUrl,
        context: &RemoteContext<'_>,
    ) -> Result<Self, RemoteError> {
        let stream = connector.connect(context)?;
        let (exchange, password) = (Exchange::default(), url.password.clone());
        let mut connection = Self { stream, buffer: Buffer::new(), exchange, password };
        connection.within(context).prepare(url)?;
        connection.end();
        Ok(connection)
    }

    /// Whether anything has arrived in this call.
    pub(super) fn has_received(&self) -> bool {
        self.exchange.has_received
    }

    /// Ends a call. Returns whether the connection can be used for another one: all answers were read.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(&mut self.exchange).awaited == 0
    }

    /// Exchanges requests and answers within the limits of a call.
    pub(super) fn within<'a>(&'a mut self, context: &'a RemoteContext<'a>) -> Session<'a> {
        Session {
            replies: Replies {
                source: self.stream.within(context),
                buffer: &mut self.buffer,
                password: self.password.as_ref().map(Secret::reveal),
            },
            exchange: &mut self.exchange,
        }
    }
}

impl Idle for Connection {
    fn is_idle(&mut self) -> bool {
        self.buffer.is_empty() && !self.stream.has_input()
    }
}

/// A connection within the limits of a call.
pub(super) struct Session<'a> {
    replies: Replies<'a, Limited<'a>>,
    exchange: &'a mut Exchange,
}

impl Session<'_> {
    /// Sends requests, which have `answers` answers.
    pub(super) fn send(&mut self, requests: &[u8], answers: usize) -> Result<(), Failure> {
        self.exchange.awaited += answers;
        self.replies.source.write_all(requests)?;
        Ok(self.replies.source.flush()?)
    }

    /// Reads the next answer. An error of the server is an answer.
    pub(super) fn reply(&mut self) -> Result<Reply, Failure> {
        self.reply_of(LARGEST_WORD)
    }

    /// Reads the next answer, which may be an object.
    pub(super) fn object(&mut self) -> Result<Reply, Failure> {
        self.reply_of(LARGEST_STRING)
    }

    fn reply_of(&mut self, largest: usize) -> Result<Reply, Failure> {
        let reply = self.replies.next(largest)?;
        self.received(0);
        Ok(reply)
    }

    /// Reads the head of an answer that is an array of `length` elements. They follow.
    pub(super) fn array(&mut self, length: usize) -> Result<(), Failure> {
        match self.replies.array() {
            Ok(found) if found == length => {
                self.received(length);
                Ok(())
            }
            Ok(found) => {
                Err(Failure::Invalid(format!("expected an array of {length} answers, found {found}")))
            }
            Err(Failure::Server(error)) => {
                self.received(0);
                Err(Failure::Server(error))
            }
            Err(other) => Err(other),
        }
    }

    /// Notes that one answer has arrived, and that `more` follow.
    fn received(&mut self, more: usize) {
        self.exchange.has_received = true;
        self.exchange.awaited = self.exchange.awaited.saturating_sub(1) + more;
    }

    /// Authenticates the user and selects the database, in one round trip.
    fn prepare(&mut self, url: &RedisUrl) -> Result<(), Failure> {
        let (mut requests, mut answers) = (Vec::new(), 0);
        let user = url.user.as_ref().map(|user| user.as_bytes());
        let password = url.password.as_ref().map(|password| password.reveal().as_bytes());
        if let Some(password) = password {
            let words: Vec<&[u8]> =
                [Some(b"AUTH".as_slice()), user, Some(password)].into_iter().flatten().collect();
            write_request(&mut requests, &words);
            answers += 1;
        }
        if url.database != 0 {
            write_request(&mut requests, &[b"SELECT", url.database.to_string().as_bytes()]);
            answers += 1;
        }
        if requests.is_empty() {
            return Ok(());
        }
        self.send(&requests, answers)?;
        if password.is_some() {
            self.ok().map_err(|failure| match failure {
                Failure::Server(error) => refused_password(&error),
                other => other,
            })?;
        }
        if url.database != 0 {
            self.ok()?;
        }
        Ok(())
    }

    /// Reads an answer that must be `OK`.
    pub(super) fn ok(&mut self) -> Result<(), Failure> {
        match self.reply()? {
            Reply::Status(text) if text == b"OK" => Ok(()),
            Reply::Error(error) => Err(Failure::Server(error)),
            other => Err(Failure::invalid(other.kind(), "the status `OK`")),
        }
    }
}

/// The server's text is not shown: it could repeat the password.
fn refused_password(error: &ServerError) -> Failure {
    match RemoteError::from(error.clone()) {
        RemoteError::Refused { .. } => {
            let code = RemoteError::from(error.without_text());
            let RemoteError::Refused { reason: code } = code else { return Failure::Remote(code) };
            let reason = format!("the server does not accept the user and the password of the URL ({code})");
            Failure::Remote(RemoteError::Refused { reason })
        }
        _ => Failure::Server(error.without_text()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::url::RemoteUrl;

    /// A connection with unread answers would give them to the next call.
    #[test]
    fn a_connection_whose_answers_were_not_read_has_not_ended_its_call() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let Ok(RemoteUrl::Redis(url)) = url.parse() else { panic!("{url}") };
        let context = RemoteContext::new(Instant::now() + Duration::from_secs(60), None);
        let mut connection = Connection::open(&Connector::plain(url.host.clone()), &url, &context).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"+OK\r\n-ERR no\r\n*2\r\n:1\r\n:2\r\n").unwrap();
        let mut call = |read: &dyn Fn(&mut Session<'_>)| {
            read(&mut connection.within(&context));
            connection.end()
        };
        assert!(call(&|_| {}));
        assert!(!call(&|session| session.send(b"two requests", 2).and_then(|()| session.ok()).unwrap()));
        assert!(call(&|session| {
            session.send(b"one request", 1).unwrap();
            assert!(matches!(session.ok(), Err(Failure::Server(_))));
        }));
        assert!(!call(&|session| {
            session.send(b"an array", 1).and_then(|()| session.array(2)).unwrap();
            assert_eq!(session.reply().unwrap(), Reply::Integer(1));
        }));
    }
}

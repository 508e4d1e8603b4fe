//! The engine: calls in batches, each of which is one round trip.

#[cfg(feature = "tls")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opkeep_cache::{
    Capabilities, ClaimAnswer, ClaimTerms, EngineSpace, ExclusiveCreate, LeaseToken, LeaseValue,
    ListedObject, Listing, ObjectName, PutAnswer, RemoteContext, RemoteEngine, RemoteError, RemoteObject,
};

use super::cluster::ClusterRefusal;
use super::commands;
use super::connection::{Connection, Session};
use super::error::Failure;
use super::wire::{LARGEST_STRING, Reply, write_head, write_request, write_word};
#[cfg(feature = "tls")]
use crate::net::PlainRequest;
use crate::net::{Connector, Pool, check};
use crate::url::{RedisUrl, RemoteUrl};

/// The maximum number of keys in a request. The server does nothing else while it answers one.
const MOST_KEYS: usize = 512;
/// The size of the requests that are sent before their answers are read. The server would stop to read if too many answers
/// waited; those to requests that store are short.
const MOST_BYTES: usize = 4 << 20;
/// The size of objects that are requested at once, after the first request showed their sizes.
const MOST_REQUESTED: usize = 32 << 20;

/// A server without TLS answers to this, with or without the password.
#[cfg(feature = "tls")]
const PING: PlainRequest<'static> = PlainRequest { bytes: b"PING\r\n", answers: b"+-" };

/// A Redis server.
pub(crate) struct RedisEngine {
    url: RedisUrl,
    location: String,
    connector: Connector,
    pool: Pool<Connection>,
    cluster: ClusterRefusal,
    /// Whether the server has answered, or was asked whether it speaks TLS.
    #[cfg(feature = "tls")]
    is_known: AtomicBool,
}

impl RedisEngine {
    pub(crate) fn new(url: RedisUrl, connector: Connector) -> Self {
        let location = RemoteUrl::Redis(url.clone()).to_string();
        #[cfg(feature = "tls")]
        let connector = connector.with_plain_request(PING);
        Self {
            url,
            location,
            connector,
            pool: Pool::new(),
            cluster: ClusterRefusal::default(),
            #[cfg(feature = "tls")]
            is_known: AtomicBool::new(false),
        }
    }

    /// Makes a call over an idle connection or a new one. If the server had closed the idle one, the call is made again over a new
    /// one, as its second attempt.
    fn call<T>(
        &self,
        context: &RemoteContext<'_>,
        mut call: impl FnMut(&mut Session<'_>, Attempt) -> Result<T, Failure>,
    ) -> Result<T, RemoteError> {
        check(context)?;
        if let Some(answer) = self.cluster.get(Instant::now()) {
            return Err(answer.into());
        }
        let mut attempt = Attempt::First;
        if let Some(mut connection) = self.pool.take() {
            let answer = call(&mut connection.within(context), attempt);
            let is_closed = matches!(&answer, Err(failure) if failure.is_disconnect());
            if !is_closed || connection.has_received() {
                return self.end(connection, answer);
            }
            self.pool.clear();
            attempt = Attempt::Second;
        }
        let mut connection = match Connection::open(&self.connector, &self.url, context) {
            Err(RemoteError::Unreachable { .. }) if self.demands_tls(context) => return Err(without_tls()),
            opened => opened?,
        };
        let answer = call(&mut connection.within(context), attempt);
        if matches!(&answer, Err(failure) if failure.is_disconnect()) && self.demands_tls(context) {
            return Err(without_tls());
        }
        self.end(connection, answer)
    }

    /// Whether a server that closed its first connection demands TLS. A server with TLS closes a connection without.
    #[cfg(feature = "tls")]
    fn demands_tls(&self, context: &RemoteContext<'_>) -> bool {
        let is_first = !self.is_known.swap(true, Ordering::Relaxed);
        is_first && !self.url.tls && self.connector.speaks_tls(context)
    }

    #[cfg(not(feature = "tls"))]
    fn demands_tls(&self, _: &RemoteContext<'_>) -> bool {
        false
    }

    /// Keeps the connection, unless answers may be left in it.
    fn end<T>(&self, mut connection: Connection, answer: Result<T, Failure>) -> Result<T, RemoteError> {
        if matches!(answer, Ok(_) | Err(Failure::Server(_))) {
            #[cfg(feature = "tls")]
            self.is_known.store(true, Ordering::Relaxed);
            if connection.end() {
                self.pool.keep(connection);
            }
        }
        if let Err(Failure::Server(error)) = &answer
            && error.is_of_cluster()
        {
            self.cluster.note(error, Instant::now());
        }
        Ok(answer?)
    }

    fn key(&self, name: &ObjectName) -> Vec<u8> {
        format!("{}/{name}", self.url.prefix).into_bytes()
    }

    fn keys(&self, names: &[ObjectName]) -> Vec<Vec<u8>> {
        names.iter().map(|name| self.key(name)).collect()
    }

    /// Stores objects. Each batch of requests is sent as a whole before its answers are read.
    fn store(
        &self,
        objects: &[RemoteObject<'_>],
        condition: Option<&'static [u8]>,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<PutAnswer>, RemoteError> {
        let too_large = objects.iter().find(|object| object.content.len() > LARGEST_STRING);
        if let Some(object) = too_large {
            let reason = format!("{object:?}: the largest object has {LARGEST_STRING} bytes");
            return Err(RemoteError::Refused { reason });
        }
        let mut answers = Vec::with_capacity(objects.len());
        let mut left = objects;
        while !left.is_empty() {
            let (batch, after) = left.split_at(batch_length(left));
            answers.extend(self.call(context, |session, _| self.store_batch(session, batch, condition))?);
            left = after;
        }
        Ok(answers)
    }

    fn store_batch(
        &self,
        session: &mut Session<'_>,
        batch: &[RemoteObject<'_>],
        condition: Option<&'static [u8]>,
    ) -> Result<Vec<PutAnswer>, Failure> {
        let mut requests = Vec::new();
        for object in batch {
            write_head(&mut requests, 3 + usize::from(condition.is_some()));
            write_word(&mut requests, b"SET");
            write_word(&mut requests, &self.key(object.name));
            write_word(&mut requests, object.content);
            condition.iter().for_each(|word| write_word(&mut requests, word));
        }
        session.send(&requests, batch.len())?;
        // All answers are read: a server that is full refuses some, and the connection stays in use.
        let (mut answers, mut refusal) = (Vec::with_capacity(batch.len()), None);
        for _ in batch {
            match commands::put_answer(session.reply()?, condition.is_some()) {
                Ok(answer) => answers.push(answer),
                Err(Failure::Server(error)) => refusal = refusal.or(Some(error)),
                Err(other) => return Err(other),
            }
        }
        refusal.map_or(Ok(answers), |error| Err(Failure::Server(error)))
    }

    /// Requests the objects of `keys` and reports those that exist. Returns their number and the size of all.
    fn get_batch(
        session: &mut Session<'_>,
        keys: &[Vec<u8>],
        found: &mut dyn FnMut(usize, Vec<u8>),
    ) -> Result<(usize, usize), Failure> {
        let mut request = Vec::new();
        write_head(&mut request, 1 + keys.len());
        write_word(&mut request, b"MGET");
        keys.iter().for_each(|key| write_word(&mut request, key));
        session.send(&request, 1)?;
        session.array(keys.len())?;
        let (mut count, mut bytes) = (0, 0);
        for index in 0..keys.len() {
            match session.object()? {
                Reply::String(content) => {
                    count += 1;
                    bytes += content.len();
                    found(index, content);
                }
                // `MGET` gives no error for what is no string.
                Reply::Nil => {}
                other => return Err(Failure::invalid(other.kind(), "a string or nothing")),
            }
        }
        Ok((count, bytes))
    }
}

fn without_tls() -> RemoteError {
    RemoteError::Unreachable { reason: "the server demands TLS, and the URL is one without it".to_owned() }
}

/// Which attempt a call is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    First,
    /// The server may have done what an attempt before requested.
    Second,
}

/// Sends a request whose answer is an array of `count` answers.
fn answers_of<T>(
    session: &mut Session<'_>,
    request: &[u8],
    count: usize,
    read: impl FnMut(Reply) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    session.send(request, 1)?;
    session.array(count)?;
    let answers: Vec<_> = (0..count).map(|_| session.reply()).collect::<Result<_, _>>()?;
    answers.into_iter().map(read).collect()
}

/// Returns the number of objects, at least one, that are sent before their answers are read.
fn batch_length(objects: &[RemoteObject<'_>]) -> usize {
    let mut bytes = 0;
    let fits = |object: &&RemoteObject<'_>| {
        bytes += object.content.len();
        bytes <= MOST_BYTES
    };
    objects.iter().take(MOST_KEYS).take_while(fits).count().max(1)
}

impl RemoteEngine for RedisEngine {
    fn location(&self) -> &str {
        &self.location
    }

    /// Without a call: every server has them, and one that lacks a command refuses it.
    fn capabilities(&self, _: &RemoteContext<'_>) -> Result<Capabilities, RemoteError> {
        let mut capabilities = Capabilities::new(ExclusiveCreate::Proven);
        capabilities.expires_leases = true;
        capabilities.has_counters = true;
        capabilities.has_listing = true;
        capabilities.max_object_bytes = LARGEST_STRING as u64;
        Ok(capabilities)
    }

    fn get_many(
        &self,
        names: &[ObjectName],
        context: &RemoteContext<'_>,
        found: &mut dyn FnMut(usize, Vec<u8>),
    ) -> Result<(), RemoteError> {
        let (mut first, mut length) = (0, MOST_KEYS);
        while first < names.len() {
            let part = &names[first..names.len().min(first + length)];
            let keys = self.keys(part);
            let (count, bytes) = self.call(context, |session, _| {
                Self::get_batch(session, &keys, &mut |index, content| found(first + index, content))
            })?;
            first += part.len();
            if count > 0 {
                let average = bytes.div_ceil(count);
                length = (MOST_REQUESTED / average.max(1)).clamp(1, MOST_KEYS);
            }
        }
        Ok(())
    }

    fn put_if_absent(
        &self,
        objects: &[RemoteObject<'_>],
        context: &RemoteContext<'_>,
    ) -> Result<Vec<PutAnswer>, RemoteError> {
        self.store(objects, Some(b"NX"), context)
    }

    fn replace(&self, objects: &[RemoteObject<'_>], context: &RemoteContext<'_>) -> Result<(), RemoteError> {
        self.store(objects, None, context).map(drop)
    }

    fn claim(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        terms: ClaimTerms,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<ClaimAnswer>, RemoteError> {
        let (mut answers, mut limit) = (Vec::with_capacity(names.len()), terms.limit);
        for part in names.chunks(MOST_KEYS) {
            if limit == 0 {
                break;
            }
            let keys = self.keys(part);
            let part = self.call(context, |session, attempt| {
                let again = attempt == Attempt::Second;
                let request = commands::claim(&keys, value, terms.keep_for, limit, again);
                let mut granted = 0;
                answers_of(session, &request, keys.len(), |reply| {
                    let answer = commands::claim_answer(reply, granted, limit)?;
                    granted += usize::from(answer == ClaimAnswer::Granted);
                    Ok(answer)
                })
            })?;
            limit -= part.iter().filter(|answer| **answer == ClaimAnswer::Granted).count().min(limit);
            answers.extend(part);
        }
        answers.resize(names.len(), ClaimAnswer::NotTried);
        Ok(answers)
    }

    fn renew(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        keep_for: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<bool>, RemoteError> {
        let mut answers = Vec::with_capacity(names.len());
        for part in names.chunks(MOST_KEYS) {
            let request = commands::renew(&self.keys(part), value, keep_for);
            let renewed = |session: &mut Session<'_>, _| {
                answers_of(session, &request, part.len(), commands::was_changed)
            };
            answers.extend(self.call(context, renewed)?);
        }
        Ok(answers)
    }

    fn release(
        &self,
        names: &[ObjectName],
        token: &LeaseToken,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        let token = token.to_string();
        for part in names.chunks(MOST_KEYS) {
            let request = commands::release(&self.keys(part), &token);
            self.call(context, |session, _| {
                session.send(&request, 1)?;
                commands::done(session.reply()?)
            })?;
        }
        Ok(())
    }

    fn progress(
        &self,
        counter: &ObjectName,
        context: &RemoteContext<'_>,
    ) -> Result<Option<u64>, RemoteError> {
        let mut request = Vec::new();
        write_request(&mut request, &[b"GET", &self.key(counter)]);
        self.call(context, |session, _| {
            session.send(&request, 1)?;
            commands::count(session.reply()?).map(Some)
        })
    }

    fn advance(
        &self,
        counter: &ObjectName,
        by: u64,
        keep_for: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        let request = commands::advance(self.key(counter), by, keep_for);
        self.call(context, |session, _| {
            session.send(&request, 1)?;
            commands::done(session.reply()?)
        })
    }

    fn list(&self, prefix: &str, cursor: &str, context: &RemoteContext<'_>) -> Result<Listing, RemoteError> {
        let own = format!("{}/", self.url.prefix);
        let pattern = commands::pattern(&format!("{own}{prefix}"));
        let cursor = if cursor.is_empty() { "0" } else { cursor };
        let mut scan = Vec::new();
        let count = MOST_KEYS.to_string();
        let words = ["SCAN", cursor, "MATCH", &pattern, "COUNT", &count];
        write_request(&mut scan, &words.map(str::as_bytes));
        self.call(context, |session, _| {
            session.send(&scan, 1)?;
            let (next, keys) = commands::scanned(session.reply()?)?;
            let names = keys.iter().filter_map(|key| {
                let name = str::from_utf8(key).ok()?.strip_prefix(&own)?;
                ObjectName::new(name).ok().filter(|name| name.as_str().starts_with(prefix))
            });
            let names: Vec<_> = names.collect();
            let mut requests = Vec::new();
            for name in &names {
                let key = self.key(name);
                write_request(&mut requests, &[b"OBJECT", b"IDLETIME", &key]);
                // `STRLEN` would count as a use of the object.
                write_request(&mut requests, &[b"MEMORY", b"USAGE", &key]);
            }
            session.send(&requests, 2 * names.len())?;
            let replies = names.iter().map(|_| Ok((session.reply()?, session.reply()?)));
            let replies = replies.collect::<Result<Vec<_>, Failure>>()?;
            let mut objects = Vec::with_capacity(names.len());
            for (name, (idle, size)) in names.into_iter().zip(replies) {
                objects.extend(
                    commands::listed(idle, size)?.map(|(idle, bytes)| ListedObject::new(name, bytes, idle)),
                );
            }
            Ok(Listing::new(objects, (next != 0).then(|| next.to_string())))
        })
    }

    fn remove(&self, names: &[ObjectName], context: &RemoteContext<'_>) -> Result<(), RemoteError> {
        for part in names.chunks(MOST_KEYS) {
            let keys = self.keys(part);
            let mut words: Vec<&[u8]> = vec![b"UNLINK"];
            words.extend(keys.iter().map(Vec::as_slice));
            let mut request = Vec::new();
            write_request(&mut request, &words);
            self.call(context, |session, _| {
                session.send(&request, 1)?;
                commands::deleted(session.reply()?, part.len())
            })?;
        }
        Ok(())
    }

    fn space(&self, context: &RemoteContext<'_>) -> Result<Option<EngineSpace>, RemoteError> {
        let mut request = Vec::new();
        write_request(&mut request, &[b"INFO", b"memory"]);
        self.call(context, |session, _| {
            session.send(&request, 1)?;
            commands::space(session.reply()?)
        })
    }
}

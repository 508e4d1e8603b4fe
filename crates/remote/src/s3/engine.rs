//! The engine: signed requests to one bucket.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use opkeep_cache::fs::ForkSafeCell;
use opkeep_cache::{
    Capabilities, ClaimAnswer, ClaimTerms, Digest, LeaseToken, LeaseValue, Listing, ObjectName, PutAnswer,
    RemoteContext, RemoteEngine, RemoteError, RemoteObject,
};
use opkeep_text::counted;

use super::credentials::{Keys, Sources};
use super::error::ServerError;
use super::place::{DEFAULT_REGION, Place};
use super::sign::{Signable, authorization};
use super::time::Timestamp;
use crate::http::{Answer, Client, Request};
use crate::net::check;
use crate::options::OpenOptions;
use crate::renewable::Renewable;
use crate::url::{RemoteUrl, S3Url};

/// The size of the largest object: larger ones would not fit in memory several at a time.
pub(super) const LARGEST_OBJECT: u64 = 512 << 20;
/// The size of answers other than objects.
pub(super) const LARGEST_DOCUMENT: u64 = 8 << 20;
const USER_AGENT: &str = concat!("opkeep/", env!("CARGO_PKG_VERSION"));

/// A bucket of an S3 server.
pub(crate) struct S3Engine {
    location: String,
    region: String,
    pub(super) place: Place,
    client: Client,
    credentials: Renewable<Keys>,
    /// The seconds that the server's clock is ahead of this machine's, if it refused a request for its time.
    clock_offset: AtomicI64,
    pub(super) capabilities: ForkSafeCell<Capabilities>,
}

/// A request to the bucket.
pub(super) struct Call<'a> {
    pub(super) method: &'static str,
    pub(super) path: String,
    /// The parameters, encoded and in order.
    pub(super) query: &'a str,
    /// A header such as `if-match`.
    pub(super) condition: Option<(&'static str, &'a str)>,
    pub(super) body: &'a [u8],
    /// The size of the largest answer.
    pub(super) largest: u64,
}

impl<'a> Call<'a> {
    pub(super) fn new(method: &'static str, path: String) -> Self {
        Self { method, path, query: "", condition: None, body: b"", largest: LARGEST_DOCUMENT }
    }
}

impl Call<'_> {
    /// Whether the answer is an object. That to a request with parameters is a document.
    fn is_for_object(&self) -> bool {
        self.method == "GET" && self.query.is_empty()
    }

    /// Whether a server of S3 gives such an answer of success. A web server, or a page that wants a login, gives others.
    fn has_answer(&self, answer: &Answer) -> bool {
        match self.method {
            "PUT" => answer.status == 200 && answer.body.is_empty(),
            "DELETE" => matches!(answer.status, 200 | 204) && answer.body.is_empty(),
            // No other status has the whole object, or document, as its body.
            _ => answer.status == 200,
        }
    }
}

/// The answer to a call.
pub(super) enum Outcome {
    Success(Answer),
    Failure { error: ServerError, has_body: bool, was_repeated: bool },
}

impl S3Engine {
    /// Creates the client of a bucket. `connect` returns what makes connections to its server.
    pub(crate) fn new<E>(
        url: S3Url,
        options: &OpenOptions,
        connect: impl FnOnce(&Place) -> Result<crate::net::Connector, E>,
    ) -> Result<Self, E> {
        let sources = Sources::new(options.variable.clone(), url.profile.clone());
        let region = url.region.clone().or_else(|| sources.region());
        let region = region.unwrap_or_else(|| DEFAULT_REGION.to_owned());
        let place = Place::new(&url, &region);
        Ok(Self {
            location: RemoteUrl::S3(url).to_string(),
            client: Client::new(connect(&place)?),
            region,
            place,
            credentials: Renewable::new(move || sources.keys()),
            clock_offset: AtomicI64::new(0),
            capabilities: ForkSafeCell::new(),
        })
    }

    /// Makes a call. If the keys have expired, it is made again with others, and if the clocks differ, with the server's time.
    pub(super) fn call(&self, call: &Call<'_>, context: &RemoteContext<'_>) -> Result<Outcome, RemoteError> {
        check(context)?;
        let mut keys = self.credentials.get()?;
        let (mut has_renewed, mut has_moved) = (false, false);
        loop {
            let answer = self.send(call, &keys, context)?;
            let redact = |text: &str| self.credentials.redacted(text);
            let error = ServerError::read_if_failed(&answer, call.is_for_object(), &redact);
            let Some(error) = error else {
                return match call.has_answer(&answer) {
                    true => Ok(Outcome::Success(answer)),
                    false => {
                        let (status, bytes) = (answer.status, answer.body.len());
                        let reason = format!(
                            "HTTP {status} with {bytes} to the request {}",
                            call.method,
                            bytes = counted(bytes, "byte")
                        );
                        Err(RemoteError::Invalid { reason })
                    }
                };
            };
            if error.is_expired() && !has_renewed {
                has_renewed = true;
                if let Some(other) = self.credentials.renew(&keys)? {
                    keys = other;
                    continue;
                }
            }
            let server_time = answer.header("date").and_then(Timestamp::from_http);
            if let Some(time) = server_time.filter(|_| error.is_skewed() && !has_moved) {
                has_moved = true;
                self.clock_offset.store(time.seconds_since(Timestamp::now(0)), Ordering::Relaxed);
                continue;
            }
            let (has_body, was_repeated) = (!answer.body.is_empty(), answer.was_repeated);
            return Ok(Outcome::Failure { error, has_body, was_repeated });
        }
    }

    fn send(&self, call: &Call<'_>, keys: &Keys, context: &RemoteContext<'_>) -> Result<Answer, RemoteError> {
        let time = Timestamp::now(self.clock_offset.load(Ordering::Relaxed));
        let digest = Digest::of(call.body).to_string();
        let mut headers = vec![("host", self.place.host.clone())];
        headers.extend(call.condition.map(|(name, value)| (name, value.to_owned())));
        headers.push(("x-amz-content-sha256", digest.clone()));
        headers.push(("x-amz-date", time.compact()));
        headers.extend(keys.token.iter().map(|token| ("x-amz-security-token", token.reveal().to_owned())));
        let Call { method, path, query, condition: _, body, largest } = call;
        let signable = Signable { method, path, query, headers: &headers, body: &digest };
        let authorization = authorization(&signable, keys, &self.region, time);
        headers.push(("authorization", authorization));
        headers.push(("user-agent", USER_AGENT.to_owned()));
        let target = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        let request = Request { method, target: &target, headers: &headers, body };
        self.client.send(&request, *largest, context)
    }
}

impl RemoteEngine for S3Engine {
    fn location(&self) -> &str {
        &self.location
    }

    fn capabilities(&self, context: &RemoteContext<'_>) -> Result<Capabilities, RemoteError> {
        if let Some(known) = self.capabilities.get() {
            return Ok(*known);
        }
        let mut capabilities = Capabilities::new(self.probe(context)?);
        capabilities.has_listing = true;
        capabilities.max_object_bytes = LARGEST_OBJECT;
        Ok(*self.capabilities.get_or_init(|| capabilities))
    }

    fn get_many(
        &self,
        names: &[ObjectName],
        context: &RemoteContext<'_>,
        found: &mut dyn FnMut(usize, Vec<u8>),
    ) -> Result<(), RemoteError> {
        self.fetch_all(names, context, found)
    }

    fn put_if_absent(
        &self,
        objects: &[RemoteObject<'_>],
        context: &RemoteContext<'_>,
    ) -> Result<Vec<PutAnswer>, RemoteError> {
        self.create_all(objects, context)
    }

    fn replace(&self, objects: &[RemoteObject<'_>], context: &RemoteContext<'_>) -> Result<(), RemoteError> {
        self.replace_all(objects, context)
    }

    fn claim(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        terms: ClaimTerms,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<ClaimAnswer>, RemoteError> {
        self.claim_up_to(names, value, terms.limit, context)
    }

    fn renew(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        _: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<bool>, RemoteError> {
        self.renew_all(names, value, context)
    }

    fn release(
        &self,
        names: &[ObjectName],
        token: &LeaseToken,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        self.release_all(names, token, context)
    }

    fn progress(&self, _: &ObjectName, context: &RemoteContext<'_>) -> Result<Option<u64>, RemoteError> {
        check(context).map(|()| None)
    }

    fn advance(
        &self,
        _: &ObjectName,
        _: u64,
        _: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        check(context)
    }

    fn list(&self, prefix: &str, cursor: &str, context: &RemoteContext<'_>) -> Result<Listing, RemoteError> {
        self.list_part(prefix, cursor, context)
    }

    fn remove(&self, names: &[ObjectName], context: &RemoteContext<'_>) -> Result<(), RemoteError> {
        self.remove_all(names, context)
    }
}

//! A server in the test's process: a cache in memory, of which a test replaces some answers.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use http::HeaderMap;
use opkeep_cache::Digest;
use opkeep_testkit::grpc::{field, fields, number, only};

use super::http2::{Handler, Reply, serve};

/// Replaces the reply to a call with these messages, if it is not `None`.
pub(super) type Hook = dyn Fn(&str, &[Vec<u8>]) -> Option<Reply> + Send + Sync;

pub(super) struct Fake {
    address: SocketAddr,
    state: Arc<State>,
}

/// What the server has, by the encoded digests, and what it was asked.
#[derive(Default)]
pub(super) struct Content {
    pub(super) results: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) blobs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The names of the methods, and the total length of their messages.
    pub(super) calls: Vec<(String, usize)>,
}

struct State {
    content: Mutex<Content>,
    early: Option<(&'static str, Reply)>,
    /// A header without which a call is refused. The refusal has the header's value.
    demanded: Mutex<Option<(&'static str, String)>>,
    hook: Box<Hook>,
}

impl Fake {
    /// Starts a server that does all that the client uses.
    pub(super) fn start() -> Self {
        Self::with(|_, _| None)
    }

    /// Starts a server with these replies in place of its own. `method` is the last part of a method's name.
    pub(super) fn with(hook: impl Fn(&str, &[Vec<u8>]) -> Option<Reply> + Send + Sync + 'static) -> Self {
        Self::new(None, Box::new(hook))
    }

    /// Starts a server that replies to a method before it has read anything.
    pub(super) fn early(method: &'static str, reply: Reply) -> Self {
        Self::new(Some((method, reply)), Box::new(|_, _| None))
    }

    fn new(early: Option<(&'static str, Reply)>, hook: Box<Hook>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State { content: Mutex::default(), early, demanded: Mutex::default(), hook });
        let fake = Self { address, state: Arc::clone(&state) };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                thread::spawn(move || serve(stream, &*state));
            }
        });
        fake
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn url(&self) -> String {
        format!("grpc://{}", self.address)
    }

    /// Refuses calls without this header from now on, after the calls in progress.
    pub(super) fn demand(&self, name: &'static str, value: &str) {
        *self.state.demanded.lock().unwrap() = Some((name, value.to_owned()));
    }

    /// Reads or changes what the server has.
    pub(super) fn content<T>(&self, change: impl FnOnce(&mut Content) -> T) -> T {
        change(&mut self.state.content.lock().unwrap())
    }

    /// The number of calls of a method.
    pub(super) fn count(&self, method: &str) -> usize {
        self.content(|content| content.calls.iter().filter(|(name, _)| name == method).count())
    }
}

impl Handler for State {
    fn early(&self, method: &str, headers: &HeaderMap) -> Option<Reply> {
        if let Some((name, value)) = &*self.demanded.lock().unwrap() {
            let found = headers.get(*name).map_or("none", |found| found.to_str().unwrap());
            if found != value {
                let message = format!("not allowed with {found}");
                return Some(Reply::Headers(vec![
                    ("grpc-status", "16".to_owned()),
                    ("grpc-message", message),
                ]));
            }
        }
        let (name, reply) = self.early.as_ref()?;
        method.ends_with(name).then(|| reply.clone())
    }

    fn reply(&self, method: &str, messages: Vec<Vec<u8>>) -> Reply {
        let (service, method) = method.rsplit_once('/').unwrap();
        let length = messages.iter().map(Vec::len).sum();
        self.content.lock().unwrap().calls.push((method.to_owned(), length));
        if let Some(reply) = (self.hook)(method, &messages) {
            return reply;
        }
        let mut content = self.content.lock().unwrap();
        match service {
            "/google.bytestream.ByteStream" => content.stream(method, &messages),
            "/build.bazel.remote.execution.v2.ActionCache"
            | "/build.bazel.remote.execution.v2.ContentAddressableStorage"
            | "/build.bazel.remote.execution.v2.Capabilities" => content.unary(method, &messages[0]),
            _ => Reply::Status(12, "unknown service"),
        }
    }
}

/// The encoded digest of a blob.
pub(super) fn digest(content: &[u8]) -> Vec<u8> {
    let hash = field(1, Digest::of(content).to_string().as_bytes());
    if content.is_empty() { hash } else { [hash, number(2, content.len() as u64)].concat() }
}

/// The capabilities of a server with these limits, for whose action cache updates are enabled or not.
pub(super) fn capabilities(function: u64, batch: u64, update_enabled: bool) -> Reply {
    let cache = [field(1, &[function as u8]), field(2, &number(1, update_enabled.into())), number(4, batch)];
    Reply::Messages(vec![field(1, &cache.concat())])
}

impl Content {
    fn unary(&mut self, method: &str, request: &[u8]) -> Reply {
        match method {
            "GetCapabilities" => return capabilities(1, 4 << 20, true),
            "GetActionResult" => match self.results.get(&only(request, 2)) {
                Some(result) => return Reply::Messages(vec![result.clone()]),
                None => return Reply::Status(5, "no result"),
            },
            "UpdateActionResult" => {
                // The action and its command are there.
                let action = &self.blobs[&only(request, 2)];
                assert!(self.blobs.contains_key(&only(action, 1)));
                self.results.insert(only(request, 2), only(request, 3));
                return Reply::Messages(vec![only(request, 3)]);
            }
            _ => {}
        }
        let answers = fields(request, 2).into_iter().filter_map(|blob| match method {
            "FindMissingBlobs" => (!self.blobs.contains_key(&blob)).then(|| field(2, &blob)),
            "BatchReadBlobs" => {
                let data = self.blobs.get(&blob).map(|data| field(2, data));
                let data = data.unwrap_or_else(|| field(3, &number(1, 5)));
                Some(field(1, &[field(1, &blob), data].concat()))
            }
            "BatchUpdateBlobs" => {
                let (key, data) = (only(&blob, 1), only(&blob, 2));
                assert_eq!(key, digest(&data));
                self.blobs.insert(key.clone(), data);
                Some(field(1, &[field(1, &key), field(2, b"")].concat()))
            }
            other => panic!("{other}"),
        });
        Reply::Messages(vec![answers.flatten().collect()])
    }

    fn stream(&mut self, method: &str, messages: &[Vec<u8>]) -> Reply {
        let name = String::from_utf8(only(&messages[0], 1)).unwrap();
        let (_, blob) = name.split_once("blobs/").unwrap();
        let (hash, size) = blob.split_once('/').unwrap();
        let key = [field(1, hash.as_bytes()), number(2, size.parse().unwrap())].concat();
        match method {
            "Read" => match self.blobs.get(&key) {
                Some(data) => Reply::Messages(data.chunks(1 << 20).map(|part| field(10, part)).collect()),
                None => Reply::Status(5, "no blob"),
            },
            "Write" => {
                let data: Vec<u8> = messages.iter().flat_map(|message| only(message, 10)).collect();
                assert_eq!(key, digest(&data));
                let size = data.len() as u64;
                self.blobs.insert(key, data);
                Reply::Messages(vec![number(1, size)])
            }
            other => panic!("{other}"),
        }
    }
}

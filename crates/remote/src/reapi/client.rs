//! Calls to one server, several at the same time over one connection.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use opkeep_cache::RemoteContext;

use super::connection::Connection;
use super::credentials::headers;
use super::failure::Failure;
use super::queue::{Queue, Window};
use super::rpc::{Rpc, ServerName};
use crate::headers::Headers;
use crate::net::{Connector, Pool, check};
use crate::options::HeaderSource;
use crate::renewable::Renewable;

/// A server, and the connections to it.
pub(super) struct Client {
    connector: Connector,
    pool: Pool<Connection>,
    name: ServerName,
    /// The headers of each call by which the server knows this client.
    headers: Arc<Renewable<Headers>>,
    window: Window,
}

/// Calls of which several are in progress at the same time.
#[derive(Clone, Copy)]
pub(super) struct Calls<'a> {
    /// The number of calls.
    pub(super) count: usize,
    /// The maximum number in progress.
    pub(super) most: usize,
    /// Whether `RESOURCE_EXHAUSTED` may say that the server has no space. If not, it has too many calls.
    pub(super) stores: bool,
    pub(super) context: &'a RemoteContext<'a>,
}

impl Client {
    pub(super) fn new(connector: Connector, name: ServerName, source: Option<HeaderSource>) -> Self {
        Self {
            connector,
            pool: Pool::new(),
            name,
            headers: Arc::new(headers(source)),
            window: Window::default(),
        }
    }

    /// Makes one call.
    pub(super) fn one<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        context: &RemoteContext<'_>,
        call: impl Fn(Rpc) -> F,
    ) -> Result<T, Failure> {
        let mut answer = None;
        let calls = Calls { count: 1, most: 1, stores: false, context };
        self.each(&calls, |rpc, _| call(rpc), |_, value| answer = Some(value))?;
        answer.ok_or_else(|| Failure::invalid("a call has no answer"))
    }

    /// Makes calls, and passes the answer to each to `done`. After an error nothing more is begun, and what is in progress is
    /// cancelled. A call that the server refuses because it has too many is made again after a while.
    ///
    /// If the server had closed an idle connection, or ends a connection without having processed all calls, the others are made
    /// over a new one; if it refuses the credentials of this client and there are others, with these. Every call of this client may be
    /// made twice.
    pub(super) fn each<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        calls: &Calls<'_>,
        call: impl Fn(Rpc, usize) -> F,
        done: impl FnMut(usize, T),
    ) -> Result<(), Failure> {
        check(calls.context).map_err(Failure::Other)?;
        if calls.count == 0 {
            return Ok(());
        }
        let mut headers = self.headers.get().map_err(Failure::Other)?;
        let answer = self.make(calls, &mut headers, call, done);
        answer.map_err(|failure| match failure.redacted(|text| self.headers.redacted(text)) {
            Failure::Status(status) if !calls.stores => status.of_reading(),
            failure => failure,
        })
    }

    /// Makes calls with `headers`, which others replace if the server refuses them.
    fn make<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        calls: &Calls<'_>,
        headers: &mut Arc<Headers>,
        call: impl Fn(Rpc, usize) -> F,
        mut done: impl FnMut(usize, T),
    ) -> Result<(), Failure> {
        let mut rest: BTreeSet<usize> = opkeep_order::set(0..calls.count);
        let name = Rc::new(self.name.clone());
        let mut idle = self.pool.take();
        let (mut is_renewed, mut is_repeated) = (false, false);
        loop {
            let is_reused = idle.is_some();
            let mut connection = match idle.take() {
                Some(connection) => connection,
                None => self.connect(calls.context)?,
            };
            let has_answer = Rc::new(Cell::new(false));
            let rpc = Rpc {
                requests: connection.requests(),
                server: Rc::clone(&name),
                headers: Arc::clone(headers),
                credentials: Arc::clone(&self.headers),
                deadline: calls.context.deadline,
                has_answer: Rc::clone(&has_answer),
            };
            let begun: Vec<_> = rest.iter().copied().collect();
            let before = begun.len();
            let done = |index: usize, value: T| {
                rest.remove(&index);
                done(index, value);
            };
            let queue = Queue::new(begun, calls.most, &self.window);
            let work = queue.run(|index| call(rpc.clone(), index), done);
            let answer = connection.run(work, calls.context).flatten();
            drop(rpc);
            let is_not_processed = match &answer {
                Err(Failure::Unprocessed(_)) => true,
                Err(Failure::Closed(_)) => is_reused && !has_answer.get(),
                _ => false,
            };
            // Proxies end each connection after a number of calls, and a plan may need several such connections.
            let has_progress = rest.len() < before;
            if is_not_processed && (has_progress || !is_repeated) {
                is_repeated = !has_progress;
                self.pool.clear();
                continue;
            }
            if answer.as_ref().err().is_none_or(Failure::leaves_connection) {
                self.pool.keep(connection);
            }
            if !is_renewed && answer.as_ref().is_err_and(Failure::refuses_client) {
                is_renewed = true;
                if let Some(others) = self.headers.renew(headers).map_err(Failure::Other)? {
                    *headers = others;
                    idle = self.pool.take();
                    continue;
                }
            }
            return answer;
        }
    }

    fn connect(&self, context: &RemoteContext<'_>) -> Result<Connection, Failure> {
        Connection::open(self.connector.connect(context).map_err(Failure::Other)?, context)
    }
}

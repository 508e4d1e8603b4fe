//! Requests to one server.

use opkeep_cache::{RemoteContext, RemoteError};

use super::answer::Answer;
use super::connection::{Connection, Exchanged};
use super::failure::Failure;
use super::request::Request;
use crate::net::{Connector, Pool, check};

/// A server, and the connections to it.
pub(crate) struct Client {
    connector: Connector,
    pool: Pool<Connection>,
}

impl Client {
    pub(crate) fn new(connector: Connector) -> Self {
        Self { connector, pool: Pool::new() }
    }

    /// Sends a request, and returns its answer with a body of `largest` bytes at most. If the server had closed an idle connection,
    /// the request is sent again over a new one, and the answer says so.
    pub(crate) fn send(
        &self,
        request: &Request<'_>,
        largest: u64,
        context: &RemoteContext<'_>,
    ) -> Result<Answer, RemoteError> {
        check(context)?;
        let head = request.head();
        let mut was_repeated = false;
        if let Some(mut connection) = self.pool.take() {
            let exchanged = connection.exchange(&head, request, largest, context);
            let is_closed = matches!(&exchanged, Err(failure) if failure.is_disconnect());
            if !is_closed || connection.has_received() {
                return self.end(connection, exchanged, was_repeated);
            }
            self.pool.clear();
            was_repeated = true;
        }
        let mut connection = Connection::new(self.connector.connect(context)?);
        let exchanged = connection.exchange(&head, request, largest, context);
        self.end(connection, exchanged, was_repeated)
    }

    fn end(
        &self,
        connection: Connection,
        exchanged: Result<Exchanged, Failure>,
        was_repeated: bool,
    ) -> Result<Answer, RemoteError> {
        let Exchanged { mut answer, is_reusable } = exchanged?;
        if is_reusable {
            self.pool.keep(connection);
        }
        answer.was_repeated = was_repeated;
        Ok(answer)
    }
}

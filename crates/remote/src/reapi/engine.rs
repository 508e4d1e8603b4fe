//! The engine: objects as results of actions in one instance of a server.

use std::time::Duration;

use opkeep_cache::fs::ForkSafeCell;
use opkeep_cache::{
    Capabilities, ClaimAnswer, ClaimTerms, LeaseToken, LeaseValue, Listing, ObjectName, PutAnswer,
    RemoteContext, RemoteEngine, RemoteError, RemoteObject,
};

use super::abilities::Abilities;
use super::blobs::LARGEST_MESSAGE;
use super::client::Client;
use super::failure::Failure;
use super::messages::GetCapabilitiesRequest;
use super::rpc::ServerName;
use super::status::Code;
use crate::net::{Connector, check};
use crate::options::HeaderSource;
use crate::url::{ReapiUrl, RemoteUrl};

const GET_CAPABILITIES: &str = "/build.bazel.remote.execution.v2.Capabilities/GetCapabilities";
/// The maximum number of calls at the same time that have small messages, and of those that transfer blobs.
pub(super) const MOST_CALLS: usize = 64;
pub(super) const MOST_TRANSFERS: usize = 4;
/// HTTP/2, as ALPN names it.
const PROTOCOL: &[u8] = b"h2";

/// An instance of a server.
pub(crate) struct ReapiEngine {
    location: String,
    pub(super) instance: String,
    pub(super) client: Client,
    abilities: ForkSafeCell<Abilities>,
}

impl ReapiEngine {
    /// Creates the client of the server that `connector` connects to.
    pub(crate) fn new(url: ReapiUrl, connector: Connector, headers: Option<HeaderSource>) -> Self {
        let scheme = if url.tls { "https" } else { "http" };
        let name = ServerName { scheme, authority: url.host.to_string() };
        Self {
            instance: url.instance.clone(),
            location: RemoteUrl::Reapi(url).to_string(),
            client: Client::new(connector.with_protocol(PROTOCOL), name, headers),
            abilities: ForkSafeCell::new(),
        }
    }

    /// Returns what the server can do. It is asked once.
    pub(super) fn abilities(&self, context: &RemoteContext<'_>) -> Result<Abilities, Failure> {
        if let Some(known) = self.abilities.get() {
            return Ok(*known);
        }
        let request = GetCapabilitiesRequest { instance_name: self.instance.clone() };
        let answer = self.client.one(context, |rpc| rpc.unary(GET_CAPABILITIES, &request, LARGEST_MESSAGE));
        let abilities = match answer {
            Err(Failure::Status(status)) if status.code == Code::UNIMPLEMENTED => Abilities::UNKNOWN,
            answer => Abilities::read(answer?)?,
        };
        Ok(*self.abilities.get_or_init(|| abilities))
    }
}

impl RemoteEngine for ReapiEngine {
    fn location(&self) -> &str {
        &self.location
    }

    fn capabilities(&self, context: &RemoteContext<'_>) -> Result<Capabilities, RemoteError> {
        check(context)?;
        Ok(self.abilities(context)?.capabilities())
    }

    fn get_many(
        &self,
        names: &[ObjectName],
        context: &RemoteContext<'_>,
        found: &mut dyn FnMut(usize, Vec<u8>),
    ) -> Result<(), RemoteError> {
        check(context)?;
        Ok(self.fetch_all(names, context, found)?)
    }

    fn put_if_absent(
        &self,
        objects: &[RemoteObject<'_>],
        context: &RemoteContext<'_>,
    ) -> Result<Vec<PutAnswer>, RemoteError> {
        check(context)?;
        Ok(self.create_all(objects, context)?)
    }

    fn replace(&self, objects: &[RemoteObject<'_>], context: &RemoteContext<'_>) -> Result<(), RemoteError> {
        check(context)?;
        Ok(self.replace_all(objects, context)?)
    }

    fn claim(
        &self,
        _: &[ObjectName],
        _: &LeaseValue,
        _: ClaimTerms,
        _: &RemoteContext<'_>,
    ) -> Result<Vec<ClaimAnswer>, RemoteError> {
        Err(NO_LEASES)
    }

    fn renew(
        &self,
        _: &[ObjectName],
        _: &LeaseValue,
        _: Duration,
        _: &RemoteContext<'_>,
    ) -> Result<Vec<bool>, RemoteError> {
        Err(NO_LEASES)
    }

    fn release(&self, _: &[ObjectName], _: &LeaseToken, _: &RemoteContext<'_>) -> Result<(), RemoteError> {
        Err(NO_LEASES)
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

    fn list(&self, _: &str, _: &str, _: &RemoteContext<'_>) -> Result<Listing, RemoteError> {
        Err(RemoteError::Unsupported { what: "list objects" })
    }

    fn remove(&self, _: &[ObjectName], _: &RemoteContext<'_>) -> Result<(), RemoteError> {
        Err(RemoteError::Unsupported { what: "delete objects" })
    }
}

const NO_LEASES: RemoteError = RemoteError::Unsupported { what: "create leases exclusively" };

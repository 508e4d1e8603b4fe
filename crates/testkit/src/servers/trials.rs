//! Trials that need a server.

use std::sync::{Arc, OnceLock};

use libtest_mimic::{Failed, Trial};

use super::options::ServerKind;
use super::server::Server;

/// A trial that gets a new server of its own. Where the server is not installed, the trial shows as ignored, with the reason
/// beside its name, and fails if it is run nevertheless.
pub fn trial(
    name: impl Into<String>,
    kind: ServerKind,
    test: impl FnOnce(Server) -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let missing = kind.missing();
    trial_with(name, missing, move || test(Server::start(kind)?))
}

/// A trial that needs something which may be missing, such as several servers, and the reason if it is.
pub fn trial_with(
    name: impl Into<String>,
    missing: Option<String>,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    match missing {
        None => Trial::test(name, test),
        // The kind is printed in brackets before the name.
        Some(reason) => {
            let short = reason.split(';').next().unwrap_or_default().to_owned();
            Trial::test(name, move || Err(reason.into())).with_kind(short).with_ignored_flag(true)
        }
    }
}

/// A server that several trials use, one after another or at the same time. The first of them starts it, and the last one ends it.
#[derive(Clone, Debug)]
pub struct SharedServer(Arc<(ServerKind, OnceLock<Result<Server, String>>)>);

impl SharedServer {
    /// A server that is not started yet.
    pub fn new(kind: ServerKind) -> Self {
        Self(Arc::new((kind, OnceLock::new())))
    }

    /// The server, which is started unless it was before.
    ///
    /// # Errors
    /// It does not start.
    pub fn get(&self) -> Result<&Server, Failed> {
        let (kind, started) = &*self.0;
        let start = || Server::start(kind.clone()).map_err(|error| error.to_string());
        started.get_or_init(start).as_ref().map_err(Into::into)
    }

    /// A trial with this server, ignored where it is not installed, as by [`trial`].
    pub fn trial(
        &self,
        name: impl Into<String>,
        test: impl FnOnce(&Server) -> Result<(), Failed> + Send + 'static,
    ) -> Trial {
        let server = self.clone();
        trial_with(name, self.0.0.missing(), move || test(server.get()?))
    }
}

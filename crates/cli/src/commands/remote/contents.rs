//! The objects of a remote cache.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use opkeep_cache::{
    ListedObject, Namespace, ObjectName, RemoteContext, RemoteEngine, RemoteError, StoredKind, StoredName,
};
use opkeep_fs::CancelToken;
use opkeep_remote::list_all;
use serde::Serialize;

use super::url::url;
use crate::flags::remote::RemoteArgs;
use crate::ui::env;
use crate::ui::output::Output;
use crate::ui::text::counted;

/// The maximum time of one call: a part of a listing has a thousand objects.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The number of objects after which the progress of a listing is shown again.
const SHOWN_STEP: usize = 1000;

/// The remote cache.
#[derive(Debug, clap::Args)]
pub(super) struct RemoteUrl {
    /// The engine [default: $OPKEEP_REMOTE]
    #[arg(value_name = "URL")]
    pub(super) url: Option<String>,
    /// The part of the remote cache [default: $OPKEEP_REMOTE_NAMESPACE, if unset default]
    #[arg(long, value_name = "NAME")]
    remote_namespace: Option<Namespace>,
}

impl RemoteUrl {
    pub(super) fn namespace(&self) -> anyhow::Result<Namespace> {
        match (&self.remote_namespace, env::text(env::REMOTE_NAMESPACE)?) {
            (Some(namespace), _) => Ok(namespace.clone()),
            (None, Some(text)) => {
                text.parse().with_context(|| format!("{} is not valid", env::REMOTE_NAMESPACE))
            }
            (None, None) => Ok(Namespace::default()),
        }
    }

    /// Returns the same as the arguments of a build.
    pub(super) fn remote_args(&self) -> RemoteArgs {
        RemoteArgs {
            remote: self.url.clone(),
            remote_mode: None,
            remote_namespace: self.remote_namespace.clone(),
        }
    }

    /// Creates the client of the engine.
    pub(super) fn engine(&self) -> anyhow::Result<Arc<dyn RemoteEngine>> {
        let url = url(self.url.as_deref())?;
        // The URL may contain a password, so it is in no message.
        opkeep_remote::open(&url, &env::remote_options()).context("URL")
    }
}

/// The part of a remote cache that a command works on.
pub(super) struct RemoteCache {
    pub(super) engine: Arc<dyn RemoteEngine>,
    pub(super) namespace: Namespace,
    pub(super) cancel: CancelToken,
}

/// The objects of a namespace.
#[derive(Default)]
pub(super) struct Contents {
    /// Those of each target.
    pub(super) targets: BTreeMap<String, Vec<Stored>>,
    /// The number of objects that are not those of a cache.
    pub(super) foreign: u64,
}

/// An object of a cache.
pub(super) struct Stored {
    pub(super) name: ObjectName,
    pub(super) kind: StoredKind,
    pub(super) bytes: u64,
    pub(super) idle: Option<Duration>,
}

impl RemoteCache {
    pub(super) fn open(args: &RemoteUrl, output: &Output) -> anyhow::Result<Self> {
        let (engine, namespace) = (args.engine()?, args.namespace()?);
        Ok(Self { engine, namespace, cancel: output.cancel_on_signal() })
    }

    pub(super) fn context(&self) -> RemoteContext<'_> {
        RemoteContext::new(Instant::now() + CALL_TIMEOUT, Some(&self.cancel))
    }

    /// Adds the engine to an error of a call.
    pub(super) fn failed(&self, error: RemoteError) -> anyhow::Error {
        let engine = self.engine.location().to_owned();
        match error {
            RemoteError::Cancelled => error.into(),
            error => anyhow::Error::from(error).context(format!("`{engine}`")),
        }
    }

    /// Lists all objects of the namespace.
    pub(super) fn contents(&self, output: &Output) -> anyhow::Result<Contents> {
        let progress = output.progress();
        progress.start("listing the objects");
        let prefix = StoredName::prefix(&self.namespace);
        let (mut contents, mut seen) = (Contents::default(), BTreeSet::new());
        let add = |object: ListedObject| {
            // An object may be in two parts.
            if !seen.insert(object.name.clone()) {
                return;
            }
            if seen.len().is_multiple_of(SHOWN_STEP) {
                progress.start(&format!("listing the objects: {}", counted(seen.len(), "object")));
            }
            match StoredName::parse(&self.namespace, &object.name) {
                Some(StoredName { target, kind, .. }) => {
                    let (name, bytes, idle) = (object.name, object.bytes, object.idle);
                    contents.targets.entry(target).or_default().push(Stored { name, kind, bytes, idle });
                }
                None => contents.foreign += 1,
            }
        };
        list_all(&*self.engine, &prefix, None, || self.context(), add).map_err(|error| self.failed(error))?;
        progress.done();
        contents
            .targets
            .values_mut()
            .for_each(|stored| stored.sort_by(|one, other| one.name.cmp(&other.name)));
        Ok(contents)
    }

    /// Returns the first line of a report.
    pub(super) fn title(&self) -> String {
        format!("{}, namespace {}", self.engine.location(), self.namespace)
    }
}

impl Stored {
    /// Whether the object has kernels: it is no lease and no counter, which the protocol among hosts needs.
    pub(super) fn has_kernels(&self) -> bool {
        matches!(self.kind, StoredKind::Entry { .. } | StoredKind::Bundle { .. })
    }
}

/// The number and the size of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Totals {
    pub(super) kernels: u64,
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

impl Totals {
    /// Returns the totals of `stored`. A kernel that several keys signed counts once.
    pub(super) fn of<'a>(stored: impl IntoIterator<Item = &'a Stored>) -> Self {
        let (mut keys, mut totals) = (BTreeSet::new(), Self::default());
        for Stored { kind, bytes, .. } in stored {
            totals.objects += 1;
            totals.bytes += bytes;
            if let StoredKind::Entry { key, .. } = kind {
                keys.insert(key);
            }
        }
        totals.kernels = keys.len() as u64;
        totals
    }
}

#[cfg(test)]
mod tests {
    use opkeep_testkit::remote::{FakeRemote, RemoteFaults};

    use super::*;
    use crate::ui::output::Format;

    /// Returns the number of objects that a faulty engine with three lists.
    fn listed(faults: RemoteFaults) -> anyhow::Result<u64> {
        let engine = FakeRemote::new();
        for name in ["v1/default/a", "v1/default/b", "v1/default/c"] {
            engine.set_object(&ObjectName::new(name)?, Vec::new());
        }
        engine.set_faults(faults);
        let (namespace, cancel) = (Namespace::default(), CancelToken::new());
        let remote = RemoteCache { engine: Arc::new(engine), namespace, cancel };
        Ok(remote.contents(&Output::terminal(Format::Text))?.foreign)
    }

    #[test]
    fn a_partial_listing_is_an_error() {
        let parts = RemoteFaults { empty_parts: 9, ..RemoteFaults::default() };
        assert_eq!(listed(parts.clone()).unwrap(), 3);
        for last in [1, 2, 3] {
            let faults = RemoteFaults { repeats_listing_after: Some(last), ..parts.clone() };
            assert!(format!("{:#}", listed(faults).unwrap_err()).contains("returns to its part"));
        }
    }
}

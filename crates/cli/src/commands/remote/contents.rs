//! The objects of a remote cache.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use opkeep_cache::{
    IdleTimeout, ListedObject, Namespace, ObjectName, RemoteContext, RemoteEngine, RemoteError, StoredKind,
    StoredName,
};
use opkeep_fs::CancelToken;
use opkeep_remote::{CHECK_PREFIX, RemoteSettings, SettingText, is_check_object, list_all};
use serde::Serialize;

use crate::config::Settings;
use crate::flags::remote::RemoteArgs;
use crate::flags::trust::TrustArgs;
use crate::setup;
use crate::ui::env;
use crate::ui::output::Output;
use crate::ui::text::counted;

/// The maximum time of one call: a part of a listing has a thousand objects.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum time in a call in which the engine sends nothing. docs/remote.md states it for all commands.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of objects after which the progress of a listing is shown again.
const SHOWN_STEP: usize = 1000;

/// The remote cache.
#[derive(Debug, clap::Args)]
pub(super) struct RemoteUrl {
    /// The engine [default: $OPKEEP_REMOTE]
    #[arg(value_name = "URL")]
    pub(super) url: Option<String>,
    /// The part of the remote cache
    ///
    /// [default: $OPKEEP_REMOTE_NAMESPACE, if unset default]
    #[arg(long, value_name = "NAME")]
    pub(super) remote_namespace: Option<Namespace>,
    #[command(flatten)]
    pub(super) config: Settings,
}

impl RemoteUrl {
    /// Returns the settings; those that are unset are from the environment or a file.
    ///
    /// # Errors
    /// Those of [`setup::remote_settings_of`].
    pub(super) fn settings(&self, trust: &TrustArgs) -> anyhow::Result<RemoteSettings> {
        let remote_namespace = self.remote_namespace.clone();
        let named = RemoteArgs { remote_namespace, config: self.config.clone(), ..RemoteArgs::default() };
        Ok(setup::remote_settings_of(url(self.url.as_ref()), &named, trust)?)
    }
}

/// Returns the URL of an argument.
fn url(argument: Option<&String>) -> Option<SettingText> {
    argument.map(|url| SettingText::new(url, "URL"))
}

/// Creates the client of the engine.
///
/// # Errors
/// None is named, or its URL is not valid.
pub(super) fn engine(settings: &RemoteSettings) -> anyhow::Result<Arc<dyn RemoteEngine>> {
    settings.engine()?.with_context(unnamed)
}

/// Returns the error for a command that needs an engine.
pub(super) fn unnamed() -> String {
    format!("no remote cache is named: give its URL, or set {}", env::REMOTE)
}

/// The part of a remote cache that a command works on.
pub(super) struct RemoteCache {
    pub(super) engine: Arc<dyn RemoteEngine>,
    pub(super) namespace: Namespace,
    pub(super) cancel: CancelToken,
    idle: IdleTimeout<'static>,
}

/// The objects of a namespace.
#[derive(Default)]
pub(super) struct Contents {
    /// Those of each target.
    pub(super) targets: BTreeMap<String, Vec<Stored>>,
    /// The objects of checks in the namespace, and how long each is unchanged.
    of_checks: Vec<(ObjectName, Option<Duration>)>,
    /// What has the name of an object of a cache and is none, such as a link in a directory, and how long each is unchanged.
    in_place: Vec<(ObjectName, Option<Duration>)>,
    /// The number of objects that are not those of a cache.
    pub(super) foreign: u64,
}

impl Contents {
    /// Returns the number of all that is no object of a cache.
    pub(super) fn others(&self) -> u64 {
        self.foreign + self.in_place.len() as u64
    }

    /// Returns what has the name of an object and is none, and is unchanged for `stale_after`.
    pub(super) fn stale_in_place(&self, stale_after: Duration) -> impl Iterator<Item = &ObjectName> {
        let is_stale = move |idle: Option<Duration>| idle.is_some_and(|idle| idle >= stale_after);
        self.in_place.iter().filter(move |(_, idle)| is_stale(*idle)).map(|(name, _)| name)
    }
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
        let settings = args.settings(&TrustArgs::default())?;
        let (engine, namespace) = (engine(&settings)?, settings.namespace()?);
        Ok(Self {
            engine,
            namespace,
            cancel: output.cancel_on_signal(),
            idle: IdleTimeout::new(IDLE_TIMEOUT),
        })
    }

    /// Returns the limits of a call that begins now. A command makes one call at a time.
    pub(super) fn context(&self) -> RemoteContext<'_> {
        let context = RemoteContext::new(Instant::now() + CALL_TIMEOUT, Some(&self.cancel));
        let context = context.with_idle_timeout(&self.idle);
        context.note_progress();
        context
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
            if object.is_object && is_check_object(&object.name) {
                contents.of_checks.push((object.name, object.idle));
                return;
            }
            match StoredName::parse(&self.namespace, &object.name) {
                Some(_) if !object.is_object => contents.in_place.push((object.name, object.idle)),
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
            .for_each(|stored| opkeep_order::by(stored, |one, other| one.name.cmp(&other.name)));
        Ok(contents)
    }

    /// Returns the objects of checks and probes that were killed, which nothing else deletes: those that are unchanged for `stale_after`, in
    /// the namespace with these contents, and in that of all checks. The latter may be out of reach for these credentials; its error comes
    /// with the others.
    pub(super) fn left_by_checks(
        &self,
        contents: &Contents,
        stale_after: Duration,
    ) -> (BTreeSet<ObjectName>, Option<RemoteError>) {
        let is_stale = |idle: Option<Duration>| idle.is_some_and(|idle| idle >= stale_after);
        let here = contents.of_checks.iter().filter(|(_, idle)| is_stale(*idle));
        let mut left: BTreeSet<_> = opkeep_order::set(here.map(|(name, _)| name.clone()));
        let add = |object: ListedObject| {
            if object.is_object && is_stale(object.idle) && is_check_object(&object.name) {
                left.insert(object.name);
            }
        };
        let listed = list_all(&*self.engine, CHECK_PREFIX, None, || self.context(), add);
        (left, listed.err())
    }

    /// Returns the line of a report on a namespace in which there is nothing.
    pub(super) fn nothing(&self) -> String {
        format!("namespace {} has no objects", self.namespace)
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
    pub(super) bundles: u64,
    pub(super) objects: u64,
    /// The number of objects of kernels: a kernel that several keys signed has several.
    pub(super) kernel_objects: u64,
    /// The size of the objects of kernels.
    pub(super) kernel_bytes: u64,
    /// The size of all objects.
    pub(super) bytes: u64,
}

impl Totals {
    /// Returns the totals of `stored`. A kernel that several keys signed counts once.
    pub(super) fn of<'a>(stored: impl IntoIterator<Item = &'a Stored>) -> Self {
        let (mut keys, mut totals) = (BTreeSet::new(), Self::default());
        for Stored { kind, bytes, .. } in stored {
            totals.objects += 1;
            totals.bytes += bytes;
            match kind {
                StoredKind::Entry { key, .. } => {
                    keys.insert(key);
                    totals.kernel_objects += 1;
                    totals.kernel_bytes += bytes;
                }
                StoredKind::Bundle { .. } => totals.bundles += 1,
                _ => {}
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
    use crate::ui::config::UiArgs;

    /// Returns the number of objects that a faulty engine with three lists.
    fn listed(faults: RemoteFaults) -> anyhow::Result<u64> {
        let engine = FakeRemote::new();
        for name in ["v1/default/a", "v1/default/b", "v1/default/c"] {
            engine.set_object(&ObjectName::new(name)?, Vec::new());
        }
        engine.set_faults(faults);
        let (namespace, cancel) = (Namespace::default(), CancelToken::new());
        let idle = IdleTimeout::new(Duration::from_millis(200));
        let remote = RemoteCache { engine: Arc::new(engine), namespace, cancel, idle };
        Ok(remote.contents(&Output::terminal(&UiArgs::plain()))?.foreign)
    }

    /// Each part may take as long as the engine may be idle.
    #[test]
    fn an_engine_that_hangs_ends_a_listing() {
        assert!(IDLE_TIMEOUT <= Duration::from_secs(10));
        let slow =
            RemoteFaults { delay: Duration::from_millis(60), empty_parts: 5, ..RemoteFaults::default() };
        assert_eq!(listed(slow).unwrap(), 3);
        let hangs = RemoteFaults { delay: Duration::from_secs(3600), ..RemoteFaults::default() };
        assert!(format!("{:#}", listed(hangs).unwrap_err()).contains("did not answer in time"));
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

//! The remote cache, and the keys.

use std::time::{Duration, Instant};

use opkeep_cache::{ExclusiveCreate, ObjectName, RemoteContext, RemoteError};
use opkeep_remote::RemoteSettings;

use super::row::Row;
use crate::flags::remote::RemoteArgs;
use crate::flags::trust::TrustArgs;
use crate::setup;
use crate::ui::text::counted;

/// The time limit of the calls to an engine.
const LIMIT: Duration = Duration::from_secs(5);

pub(super) fn rows(remote: &RemoteArgs, trust: &TrustArgs) -> Vec<Row> {
    let settings = match setup::remote_settings(remote, trust) {
        Ok(settings) => settings,
        Err(error) => return vec![Row::error("remote", &error.into()).prevents_builds(true)],
    };
    let remote = match settings.remote() {
        Ok(Some(remote)) => remote,
        Ok(None) => {
            let is_off = settings.url.is_some();
            let why = if is_off { "off, by its mode" } else { "none is named" };
            return vec![Row::ok("remote", why)];
        }
        Err(error) => return vec![Row::error("remote", &error.into()).prevents_builds(true)],
    };
    let (engine, namespace) = (remote.engine, remote.namespace);
    let title = format!("{}, namespace {namespace}, {}", engine.location(), remote.policy);
    let check = "`opkeep remote check` reports all that the server does; builds go on without it";
    let begin = Instant::now();
    let context = RemoteContext::new(begin + LIMIT, None);
    // Nothing has this name, so nothing is received and nothing is written.
    let asked = ObjectName::new(format!("v1/{namespace}/check-doctor"))
        .map_err(|error| error.to_string())
        .and_then(|name| {
            let got = engine.get_many(&[name], &context, &mut |_, _| {});
            got.map_err(|error: RemoteError| error.to_string())
        });
    if let Err(problem) = asked {
        return vec![Row::problem("remote", format!("{title}: {problem}")).help(check)];
    }
    let time = begin.elapsed().as_secs_f64() * 1e3;
    let leases = match engine.capabilities(&context).map(|can| can.exclusive_create) {
        Ok(ExclusiveCreate::Proven) => "hosts compile each kernel once",
        Ok(ExclusiveCreate::Unproven) => {
            "hosts compile each kernel once, if the server creates names exclusively"
        }
        Ok(_) => "without leases: several hosts may compile the same kernel",
        Err(error) => return vec![Row::problem("remote", format!("{title}: {error}")).help(check)],
    };
    let row = Row::ok("remote", format!("{title}: answers in {time:.1} ms; {leases}"));
    vec![row.help("`opkeep remote check` reports all that the server does")]
}

pub(super) fn keys(remote: &RemoteArgs, trust: &TrustArgs) -> Vec<Row> {
    let settings = setup::trust_settings(remote, trust);
    let trust = match settings.trust() {
        Ok(trust) => trust,
        Err(error) => return vec![Row::error("keys", &error.into()).prevents_builds(true)],
    };
    let origin = |settings: &RemoteSettings| {
        settings.trusted_keys.as_ref().map_or(String::new(), |keys| format!(" ({})", keys.origin()))
    };
    let trusted = match trust.policy.trusted_keys() {
        Some(keys) => {
            let which = counted(keys.len(), "trusted key");
            Row::ok("keys", format!("{which}{}: other kernels are not used", origin(&settings)))
        }
        None if settings.url.is_some() => Row::note(
            "keys",
            "no key is trusted: kernels of the remote cache are used without signatures",
        )
        .help("`opkeep help key` describes keys; who can write to the remote cache decides what runs here"),
        None => Row::ok("keys", "no key is trusted: kernels are used without signatures"),
    };
    let mut rows = vec![trusted];
    rows.extend(
        trust
            .signing_key
            .map(|key| Row::ok("keys", format!("kernels are signed as {}", key.public_key().name()))),
    );
    rows
}

//! `opkeep remote push`: sends kernels of the store to a remote cache.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use opkeep_cache::{Cache, CacheConfig, PushReport, RemoteConfig, RemotePolicy};
use opkeep_kernel_entry::{EntryVerdict, verify_entry};
use opkeep_store::{Access, Entry};
use opkeep_validator::Validator;
use serde::Serialize;

use super::contents::{RemoteUrl, engine};
use crate::commands::gc::store::open;
use crate::flags::store::StoreArgs;
use crate::flags::trust::TrustArgs;
use crate::setup;
use crate::ui::env::RemoteNotWritten;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, counted};

/// The details of push.
const DETAILS: &str = "\
A build sends what it compiled by itself. What it could not send, since the engine was gone, slow or
full, or since the build was killed, is marked in the store, and sent by the next build or by this
command. A mark names the engine, without credentials, and the namespace: kernels are sent where the
build would have sent them, and nowhere else. Marks of earlier versions name none: no build sends
those kernels, and this command sends them.

A kernel that the engine has stays there, unless a build found it to be wrong. With trusted keys and
no signing key, nothing is sent, which is an error: this host would not take it back. With trusted
keys of which none is that of the signing key, a kernel replaces the one there, which this host
cannot judge.

With --all, every valid kernel of the store is sent, to fill a new remote cache or namespace, or to
sign with a new key what an earlier one signed. A kernel that no build has validated yet, such as
one of a bundle, is validated before. Kernels that opkeep import took from a framework are never
sent, nor are files that work only on this machine. With --sign-key, kernels are signed as a build
signs them: those that this host compiled. With --trusted-keys as well, a kernel that another host
signed for another namespace is not sent to this one.

Exit code 0: all that may be sent was sent; 1: something could not be sent; 2: the store cannot be
opened or written, URL is not valid, nothing signs kernels, or OPKEEP_REMOTE_MODE is read or off.

Examples:
  opkeep remote push redis://HOST
    sends what builds could not send
  opkeep remote push redis://HOST --all
    fills a new remote cache from the store";

/// Send the kernels of the store that builds could not send to a remote cache
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteUrl,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    trust: TrustArgs,
    /// Send all kernels of the store, not only those that builds could not send
    ///
    /// Imported kernels are not sent, nor are files that work only on this machine.
    #[arg(long)]
    all: bool,
}

/// The result as JSON.
#[derive(Serialize)]
struct PushOutput {
    url: String,
    namespace: String,
    root: String,
    targets: Vec<TargetOutput>,
}

#[derive(Serialize)]
struct TargetOutput {
    target: String,
    sent: usize,
    left: usize,
    skipped: usize,
    too_large: usize,
    other_namespace: usize,
    elsewhere: usize,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let settings = args.remote.settings(&args.trust)?;
    if settings.policy()? != RemotePolicy::ReadWrite {
        return Err(RemoteNotWritten.into());
    }
    let (engine, namespace) = (engine(&settings)?, settings.namespace()?);
    let Some(store) = open(&args.store, Access::Existing, output)? else { return Ok(ExitStatus::Success) };
    let cancel = output.cancel_on_signal();
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let mut config = CacheConfig::new(setup::store_at(store.root().to_owned(), &args.store));
    let mut remote = RemoteConfig::new(Arc::clone(&engine));
    remote.namespace = namespace.clone();
    config.remote = Some(remote);
    config.is_for_others = opkeep_kernel_entry::is_for_others;
    config.trust = settings.trust()?;
    let noted = Arc::clone(&warnings);
    config.on_warning = Some(Arc::new(move |_, text| {
        noted.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }));
    let cache = Cache::open(config).context("opening the store")?;
    let validator = Validator::builtin();
    let progress = output.progress();
    progress.start("sending kernels");
    let (mut text, mut targets) = (Text::default(), Vec::new());
    for name in store.targets()? {
        let target = cache.target(&name)?;
        let is_valid = |entry: &Entry| matches!(verify_entry(entry, &name, &validator), EntryVerdict::Valid);
        let report = match args.all {
            true => target.push_all(&is_valid, None, Some(&cancel)),
            false => target.push_unsent_and_unnamed(None, Some(&cancel)),
        };
        target.flush();
        if let Some(reason) = report.nothing_sent {
            progress.done();
            return Err(reason.into());
        }
        text.line(format_args!("{name}: {}", summary(&report, args.all, settings.sign_key.is_some())));
        targets.push(TargetOutput {
            target: name,
            sent: report.sent,
            left: report.left,
            skipped: report.skipped,
            too_large: report.too_large,
            other_namespace: report.other_namespace,
            elsewhere: report.elsewhere,
        });
    }
    progress.done();
    warnings
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        // A build continues without the engine; here is none.
        .for_each(|text| {
            let of_build = ["; building without it", "; the kernels are sent later"];
            let text = of_build.iter().fold(text.as_str(), |text, end| text.trim_end_matches(end));
            output.print_warning(text);
        });
    if targets.is_empty() {
        text.line("the store is empty");
    }
    let is_left = targets.iter().any(|target| target.left > 0);
    let json = PushOutput {
        url: engine.location().to_owned(),
        namespace: namespace.to_string(),
        root: json::path(store.root()),
        targets,
    };
    output.print_result(&text, &json)?;
    Ok(match (cancel.is_cancelled(), is_left) {
        (true, _) => ExitStatus::Interrupted,
        (false, true) => ExitStatus::Problems,
        (false, false) => ExitStatus::Success,
    })
}

fn summary(report: &PushReport, all: bool, signs: bool) -> String {
    let PushReport { sent, left, skipped, too_large, other_namespace, elsewhere, .. } = *report;
    let parts = [
        (left, "still to be sent"),
        (skipped, "not for other hosts"),
        (other_namespace, "of another namespace and not compiled here"),
        (too_large, "larger than the engine takes"),
        (elsewhere, "to be sent to another engine or namespace"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: String = parts.map(|(count, what)| format!(", {count} {what}")).collect();
    match (sent, parts.is_empty(), all) {
        (0, true, true) => "sent 0 kernels: the store has none".to_owned(),
        (0, true, false) => {
            // After a change of the key, nothing is left to be sent, and nothing has the new key's signature.
            let sends = if signs { "signs and sends" } else { "sends" };
            format!("sent 0 kernels: builds left none; --all {sends} all of the store")
        }
        _ => format!("sent {}{parts}", counted(sent, "kernel")),
    }
}

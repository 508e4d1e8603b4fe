//! What builds did with the remote cache, and the time that they lost by waiting: phrases for texts, and JSON.

use std::time::Duration;

use opkeep::BuildReport;
use opkeep_store::Statistics;
use serde::Serialize;

use crate::ui::json::Milliseconds;
use crate::ui::text::{bytes, counted};

/// A shorter time is not worth a phrase.
const SHORTEST: Duration = Duration::from_millis(50);

/// The use of the remote cache by a build, as JSON.
#[derive(Serialize)]
pub(crate) struct RemoteOutput {
    received: u64,
    by_other_hosts: u64,
    bytes_received: u64,
    sent: u64,
    bytes_sent: u64,
    unsent: usize,
    uploads_refused: u64,
    uploads_unsent: u64,
    takeovers: u64,
    host_waits: u64,
    refused: RefusedOutput,
    failed_calls: u64,
}

/// Entries that were refused, by reason, as JSON.
#[derive(Serialize)]
pub(crate) struct RefusedOutput {
    damaged: u64,
    unsigned: u64,
    untrusted: u64,
    forged: u64,
    invalid: u64,
}

/// The time that a build lost, as JSON.
#[derive(Serialize)]
pub(crate) struct LostOutput {
    process_ms: Milliseconds,
    host_ms: Milliseconds,
    remote_ms: Milliseconds,
}

impl From<&BuildReport> for RemoteOutput {
    fn from(report: &BuildReport) -> Self {
        let BuildReport { activity, unsent, .. } = report;
        Self {
            received: activity.remote_hits,
            by_other_hosts: activity.remote_shared,
            bytes_received: activity.remote_bytes_received,
            sent: activity.remote_puts,
            bytes_sent: activity.remote_bytes_sent,
            unsent: *unsent,
            uploads_refused: activity.uploads_refused,
            uploads_unsent: activity.uploads_unsent,
            takeovers: activity.takeovers,
            host_waits: activity.host_waits,
            refused: RefusedOutput {
                damaged: activity.refused_damaged,
                unsigned: activity.refused_unsigned,
                untrusted: activity.refused_untrusted,
                forged: activity.refused_forged,
                invalid: activity.refused_invalid,
            },
            failed_calls: activity.remote_failures,
        }
    }
}

impl From<&Statistics> for LostOutput {
    fn from(activity: &Statistics) -> Self {
        let time = |micros| Milliseconds(Duration::from_micros(micros));
        Self {
            process_ms: time(activity.lost_process_micros),
            host_ms: time(activity.lost_host_micros),
            remote_ms: time(activity.lost_remote_micros),
        }
    }
}

/// `waited 1.2 s for other hosts, 0.3 s for the remote cache`; `None` if no time is worth it.
pub(crate) fn waited(activity: &Statistics) -> Option<String> {
    let waits = [
        (activity.lost_process_micros, "other processes"),
        (activity.lost_host_micros, "other hosts"),
        (activity.lost_remote_micros, "the remote cache"),
    ];
    let waits = waits.map(|(micros, what)| (Duration::from_micros(micros), what));
    let long = waits.into_iter().filter(|(time, _)| *time >= SHORTEST);
    let texts: Vec<String> =
        long.map(|(time, what)| format!("{:.1} s for {what}", time.as_secs_f64())).collect();
    (!texts.is_empty()).then(|| format!("waited {}", texts.join(", ")))
}

/// `1 lease taken over`
pub(crate) fn taken_over(activity: &Statistics) -> Option<String> {
    some(activity.takeovers, |count| format!("{} taken over", counted(count, "lease")))
}

/// `10 sent (210.0 KiB)`
pub(crate) fn sent(activity: &Statistics) -> Option<String> {
    some(activity.remote_puts, |count| format!("{count} sent ({})", bytes(activity.remote_bytes_sent)))
}

/// `3 still to be sent`
pub(crate) fn unsent(kernels: usize) -> Option<String> {
    (kernels > 0).then(|| format!("{kernels} still to be sent"))
}

/// `3 attempts to send failed (1 refused by the remote cache)`: a kernel counts for each attempt.
pub(crate) fn failed_uploads(activity: &Statistics) -> Option<String> {
    let Statistics { uploads_refused: refused, uploads_unsent: others, .. } = activity;
    let by_engine = some(*refused, |count| format!(" ({count} refused by the remote cache)"));
    some(refused + others, |count| {
        format!("{} to send failed{}", counted(count, "attempt"), by_engine.unwrap_or_default())
    })
}

/// `2 entries of the remote cache refused (1 damaged, 1 unsigned)`
pub(crate) fn refused(activity: &Statistics) -> Option<String> {
    let kinds = [
        (activity.refused_damaged, "damaged"),
        (activity.refused_unsigned, "unsigned"),
        (activity.refused_untrusted, "not signed by a trusted key"),
        (activity.refused_forged, "with a forged signature"),
        (activity.refused_invalid, "not valid"),
    ];
    let all = kinds.iter().map(|(count, _)| count).sum();
    let texts: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}")).collect();
    let texts = texts.join(", ");
    some(all, |all| format!("{} refused ({texts})", counted_entries(all)))
}

/// `3 calls to the remote cache failed`
pub(crate) fn failed(activity: &Statistics) -> Option<String> {
    some(activity.remote_failures, |count| format!("{} to the remote cache failed", counted(count, "call")))
}

fn counted_entries(count: u64) -> String {
    format!("{} of the remote cache", counted(count, "entry"))
}

fn some(count: u64, text: impl FnOnce(u64) -> String) -> Option<String> {
    (count > 0).then(|| text(count))
}

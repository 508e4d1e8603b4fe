//! The events of a build.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opkeep_artifact::Artifact;
use opkeep_text::counted;

use crate::{KernelError, MissExplanation, Outcome, Tier, WarningKind};

/// The observer of a build.
pub(crate) type Observer = dyn Fn(Event<'_>) + Send + Sync;

/// A step of a build.
///
/// Events are sent from the build's threads, in no particular order between kernels. Each kernel ends with exactly one
/// of [`Hit`](Self::Hit), [`Finished`](Self::Finished), [`Failed`](Self::Failed), [`Skipped`](Self::Skipped) and
/// [`Cancelled`](Self::Cancelled). Names, counts and times are plain data, and [`Display`](fmt::Display) gives one line
/// of text.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// All keys are known.
    Planned {
        /// The number of requests.
        operators: usize,
        /// The number of kernels for these requests.
        kernels: usize,
    },
    /// A kernel was in the store, or in the remote tier.
    Hit {
        /// The kernel's name.
        kernel: &'a str,
        /// The kernel.
        artifact: &'a Arc<Artifact>,
        /// The place where it was found.
        tier: Tier,
    },
    /// All kernels were looked up: these are missing, and are built next. Sent if there is one.
    LookedUp {
        /// The missing kernels.
        missing: &'a [MissingKernel<'a>],
        /// The maximum number of compiles at once.
        threads: usize,
    },
    /// A miss is explained. Sent for each missing kernel, before or after its compile, if
    /// [`Config::explain_misses`](crate::Config::explain_misses) is set.
    #[non_exhaustive]
    Explained {
        /// The kernel's name.
        kernel: &'a str,
        /// The miss, with the nearest stored kernel.
        miss: &'a MissExplanation,
    },
    /// A kernel is about to be compiled.
    Started {
        /// The kernel's name.
        kernel: &'a str,
    },
    /// Another process compiles the kernel. Sent once for each kernel.
    Waiting {
        /// The kernel's name.
        kernel: &'a str,
    },
    /// Another host compiles the kernel: the build waits for it, and compiles others meanwhile. Such a kernel is
    /// [`Waiting`](Self::Waiting), too.
    #[non_exhaustive]
    WaitingForHost {
        /// The kernel's name.
        kernel: &'a str,
    },
    /// A wait for another host ended: with the kernel, without it, or since another process of this host waits as well.
    #[non_exhaustive]
    WaitEnded {
        /// The kernel's name.
        kernel: &'a str,
        /// The time since the kernel was begun.
        waited: Duration,
    },
    /// The build took over the kernel from another host, which gave no heartbeat, and compiles it.
    #[non_exhaustive]
    LeaseTakenOver {
        /// The kernel's name.
        kernel: &'a str,
    },
    /// Kernels are in the remote tier now.
    #[non_exhaustive]
    Sent {
        /// The number of kernels.
        kernels: usize,
        /// The size of their entries in bytes.
        bytes: u64,
    },
    /// Kernels could not be sent to the remote tier. A later build sends them.
    #[non_exhaustive]
    NotSent {
        /// The number of kernels.
        kernels: usize,
        /// Whether the remote tier refused them, such as one that is full.
        is_refused: bool,
        /// The reason.
        reason: &'a str,
    },
    /// The last calls to the remote tier failed: it is not used for a while.
    RemotePaused,
    /// The remote tier is used again.
    RemoteResumed,
    /// A missing kernel was built.
    Finished {
        /// The kernel's name.
        kernel: &'a str,
        /// Its outcome.
        outcome: Outcome,
        /// The time since the kernel was begun, including waits for other processes.
        elapsed: Duration,
        /// The kernel.
        artifact: &'a Arc<Artifact>,
        /// The place where it was found; `None` if this build compiled it.
        tier: Option<Tier>,
    },
    /// A kernel could not be built.
    Failed {
        /// The kernel's name; if the backend refused the job, the name of its first request.
        kernel: &'a str,
        /// The reason.
        error: &'a KernelError,
        /// The time since the kernel was begun.
        elapsed: Duration,
    },
    /// A kernel is not built, because another one failed and the build ends with its first failure.
    Skipped {
        /// The kernel's name.
        kernel: &'a str,
        /// The kernel that failed.
        first: &'a str,
    },
    /// A kernel was not finished, because the call was cancelled.
    Cancelled {
        /// The kernel's name.
        kernel: &'a str,
        /// The time since the kernel was begun.
        elapsed: Duration,
    },
    /// A problem that does not stop the build. Each problem is sent once.
    Warning {
        /// The warning's subject.
        kind: WarningKind,
        /// The problem, as text.
        text: &'a str,
    },
}

/// A kernel that a build lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingKernel<'a> {
    /// The kernel's name.
    pub name: &'a str,
    /// The time that its compile takes, by the compiles of such operators on this machine: where none was measured, the average of
    /// the other missing kernels. `None` if no time is known of any.
    pub expected: Option<Duration>,
    /// Whether a compile of such operators was measured on this machine.
    pub is_measured: bool,
}

impl Event<'_> {
    /// Returns the event's name for machine-readable output.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Planned { .. } => "planned",
            Self::Hit { .. } => "hit",
            Self::LookedUp { .. } => "looked-up",
            Self::Explained { .. } => "explained",
            Self::Started { .. } => "started",
            Self::Waiting { .. } => "waiting-for",
            Self::WaitingForHost { .. } => "waiting-for-host",
            Self::WaitEnded { .. } => "wait-ended",
            Self::LeaseTakenOver { .. } => "lease-taken-over",
            Self::Sent { .. } => "sent",
            Self::NotSent { .. } => "not-sent",
            Self::RemotePaused => "remote-paused",
            Self::RemoteResumed => "remote-resumed",
            Self::Finished { .. } => "finished",
            Self::Failed { .. } => "failed",
            Self::Skipped { .. } => "skipped",
            Self::Cancelled { .. } => "cancelled",
            Self::Warning { .. } => "warning",
        }
    }
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Planned { operators, kernels } => {
                write!(f, "{}, {}", counted(*operators, "operator"), counted(*kernels, "kernel"))
            }
            Self::Hit { kernel, tier: Tier::Remote, .. } => {
                write!(f, "reused {kernel} from the remote cache")
            }
            Self::Hit { kernel, .. } => write!(f, "reused {kernel}"),
            Self::LookedUp { missing, .. } => {
                write!(f, "{} to build", counted(missing.len(), "kernel"))
            }
            Self::Explained { kernel, miss } => write!(f, "{kernel} is missing: {miss}"),
            Self::Started { kernel } => write!(f, "compiling {kernel}"),
            Self::Waiting { kernel } => write!(f, "another process is compiling {kernel}"),
            Self::WaitingForHost { kernel } => write!(f, "waiting for another host: {kernel}"),
            Self::WaitEnded { kernel, waited } => {
                write!(f, "waited {:.2} s for another host: {kernel}", waited.as_secs_f64())
            }
            Self::LeaseTakenOver { kernel } => {
                write!(f, "the stale lease of another host is taken over; compiling here: {kernel}")
            }
            Self::Sent { kernels, bytes } => {
                let (kernels, bytes) = (counted(*kernels, "kernel"), counted(*bytes, "byte"));
                write!(f, "sent {kernels} to the remote cache, {bytes}")
            }
            Self::NotSent { kernels, reason, .. } => {
                write!(f, "{} not sent: {reason}", counted(*kernels, "kernel"))
            }
            Self::RemotePaused => {
                f.write_str("the remote cache is not used for a while: its last calls failed")
            }
            Self::RemoteResumed => f.write_str("the remote cache is used again"),
            Self::Finished { kernel, outcome, elapsed, tier, .. } => {
                let from = if *tier == Some(Tier::Remote) { " from the remote cache" } else { "" };
                write!(f, "{outcome} {kernel}{from} in {:.2} s", elapsed.as_secs_f64())
            }
            Self::Failed { kernel, error, .. } => write!(f, "failed {kernel}: {error}"),
            Self::Skipped { kernel, first } => write!(f, "skipped {kernel}, since {first} failed"),
            Self::Cancelled { kernel, .. } => write!(f, "cancelled {kernel}"),
            Self::Warning { text, .. } => write!(f, "warning: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_called_many() {
        let planned = |operators, kernels| Event::Planned { operators, kernels }.to_string();
        assert_eq!(planned(1, 1), "1 operator, 1 kernel");
        assert_eq!(planned(2, 0), "2 operators, 0 kernels");
    }
}

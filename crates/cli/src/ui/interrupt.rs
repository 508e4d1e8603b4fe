//! Interrupts (Ctrl-C): the build and its compilers end, and finished kernels are kept.

use std::sync::{Mutex, MutexGuard, Once, PoisonError, mpsc};
use std::time::Duration;

use opkeep::BuildError;
use opkeep_cache::RemoteError;
use opkeep_fs::{CancelToken, is_ignored_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The exit code that shells expect of an interrupted program: 128 and the number of SIGINT.
pub(crate) const EXIT_CODE: u8 = 130;

/// What signals cancel; without it, they end the process.
static CANCEL: Mutex<Option<CancelToken>> = Mutex::new(None);
/// The longest time that the removal of temporary files takes when the process ends.
const REMOVAL: Duration = Duration::from_secs(1);

/// Makes an interrupt, a termination or a hang-up cancel `cancel`, from now on. A signal that
/// comes after the first one was handled ends the process at once; the system merges equal ones that come before. Signals that the
/// process was started to ignore stay ignored.
pub(crate) fn cancel_on_signal(cancel: &CancelToken) {
    *cancelled_by_signals() = Some(cancel.clone());
    handle_signals();
}

/// Makes the temporary files of this process vanish with it, whatever ends it, except a kill.
pub(crate) fn remove_temporaries_at_end() {
    // Until there are some, signals have their usual effect.
    opkeep_fs::on_first_temporary(handle_signals);
}

/// Removes the temporary files that threads still have which a command left behind.
pub(crate) fn end() {
    opkeep_fs::remove_temporaries(REMOVAL);
}

fn handle_signals() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // As `nohup` ignores one, and shells for programs in the background.
        let mut handled = vec![SIGINT, SIGTERM, SIGHUP];
        handled.retain(|signal| !is_ignored_signal(*signal));
        let (ready, is_ready) = mpsc::channel();
        // Without the thread there is no handler either: then a signal ends the process and its compilers.
        let wait = move || {
            let signals = Signals::new(handled);
            drop(ready);
            if let Ok(mut signals) = signals {
                signals.forever().for_each(|_| handle());
            }
        };
        if std::thread::Builder::new().name("signals".to_owned()).spawn(wait).is_ok() {
            let _: Result<(), mpsc::RecvError> = is_ready.recv();
        }
    });
}

fn handle() {
    match cancelled_by_signals().clone() {
        Some(cancel) if !cancel.is_cancelled() => cancel.cancel(),
        _ => {
            end();
            #[expect(
                clippy::exit,
                clippy::disallowed_methods,
                reason = "nothing waits for the signal, or it is the second one, which ends the process at once"
            )]
            std::process::exit(EXIT_CODE.into());
        }
    }
}

fn cancelled_by_signals() -> MutexGuard<'static, Option<CancelToken>> {
    CANCEL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an interrupt before anything was built is the cause of the error.
pub(crate) fn is_cause_of(error: &anyhow::Error) -> bool {
    // The cause is searched in the chain, since the context of an error may name a file.
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(BuildError::Cancelled))
            || matches!(cause.downcast_ref(), Some(RemoteError::Cancelled))
    })
}

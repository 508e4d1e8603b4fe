//! Interrupts (Ctrl-C): the build and its compilers end, and finished kernels are kept.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opkeep::BuildError;
use opkeep_cache::RemoteError;
use opkeep_fs::CancelToken;

/// The exit code that shells expect of an interrupted program: 128 and the number of SIGINT.
pub(crate) const EXIT_CODE: u8 = 130;

/// What signals cancel; without it, they end the process.
static CANCEL: Mutex<Option<CancelToken>> = Mutex::new(None);
/// The longest time that the removal of temporary files takes when the process ends.
const REMOVAL: Duration = Duration::from_secs(1);

/// Makes an interrupt, a termination or a hang-up cancel `cancel`, from now on. A second signal ends the process at once.
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
    let handler = || match cancelled_by_signals().clone() {
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
    };
    // Without a handler, an interrupt ends the process and its compilers. One that is there by now does the same.
    let _ = ctrlc::set_handler(handler);
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

//! Interrupts (Ctrl-C): the build and its compilers end, and finished kernels are kept.

use opkeep::BuildError;
use opkeep_cache::RemoteError;
use opkeep_fs::CancelToken;

/// The exit code that shells expect of an interrupted program: 128 and the number of SIGINT.
pub(crate) const EXIT_CODE: u8 = 130;

/// Makes an interrupt, a termination or a hang-up cancel `cancel`, from now on. A second signal ends the process at once.
pub(crate) fn cancel_on_signal(cancel: &CancelToken) {
    let state = cancel.clone();
    let handler = move || {
        if state.is_cancelled() {
            #[expect(
                clippy::exit,
                clippy::disallowed_methods,
                reason = "the second signal ends the process at once"
            )]
            std::process::exit(EXIT_CODE.into());
        }
        state.cancel();
    };
    // Without a handler, an interrupt ends the process and its compilers. A handler that an earlier step of the command set
    // cancels the same token.
    let _ = ctrlc::set_handler(handler);
}

/// Whether an interrupt before anything was built is the cause of the error.
pub(crate) fn is_cause_of(error: &anyhow::Error) -> bool {
    // The cause is searched in the chain, since the context of an error may name a file.
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(BuildError::Cancelled))
            || matches!(cause.downcast_ref(), Some(RemoteError::Cancelled))
    })
}

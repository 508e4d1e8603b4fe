//! Interrupts (Ctrl-C): the build and its compilers end, and finished kernels are kept.

use opkeep::BuildError;
use opkeep_fs::CancelToken;

/// The exit code that shells expect of an interrupted program: 128 and the number of SIGINT.
pub(crate) const EXIT_CODE: u8 = 130;

/// Returns a token that an interrupt, a termination or a hang-up cancels. A second signal ends the process at once.
pub(crate) fn cancel_on_signal() -> CancelToken {
    let cancel = CancelToken::new();
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
    // Without a handler, an interrupt ends the process and its compilers.
    let _ = ctrlc::set_handler(handler);
    cancel
}

/// Whether an interrupt before anything was built is the cause of the error.
pub(crate) fn is_cause_of(error: &anyhow::Error) -> bool {
    // The cause is searched in the chain, since the context of an error may name a file.
    error.chain().any(|cause| matches!(cause.downcast_ref(), Some(BuildError::Cancelled)))
}

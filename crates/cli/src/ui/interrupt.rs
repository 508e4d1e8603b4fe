//! Ctrl-C: the build ends in order, its compilers with it, and what is finished is kept.

use opkeep::BuildError;
use opkeep_fs::CancelToken;

/// What a shell expects of a program that was interrupted: 128 and the number of SIGINT.
pub(crate) const EXIT_CODE: u8 = 130;

/// A token that an interrupt, a termination or a hang-up cancels. The second of them ends the process at once.
pub(crate) fn cancel() -> CancelToken {
    let cancel = CancelToken::new();
    let state = cancel.clone();
    let handler = move || {
        if state.is_cancelled() {
            #[expect(
                clippy::exit,
                clippy::disallowed_methods,
                reason = "the second interrupt ends it at once"
            )]
            std::process::exit(EXIT_CODE.into());
        }
        state.cancel();
    };
    // Without a handler, an interrupt ends the process and its compilers.
    let _ = ctrlc::set_handler(handler);
    cancel
}

/// Whether the error is an interrupt before anything was built.
pub(crate) fn is_behind(error: &anyhow::Error) -> bool {
    // Its context may name a file.
    error.chain().any(|cause| matches!(cause.downcast_ref(), Some(BuildError::Cancelled)))
}

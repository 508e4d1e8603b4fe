//! The context that a test passes to a backend.

use std::sync::Mutex;
use std::time::Instant;

use opkeep_backend::{Context, Diagnostics};
use opkeep_fs::CancelToken;

use crate::digests::PlainDigests;

/// A caller of a backend: it digests files on each call and keeps the warnings.
#[derive(Debug, Default)]
pub struct TestContext {
    /// Digests files, and counts them.
    pub files: PlainDigests,
    /// Cancels the calls.
    pub cancel: CancelToken,
    /// The deadline of the calls.
    pub deadline: Option<Instant>,
    warnings: Mutex<Vec<String>>,
}

impl TestContext {
    /// A caller without a deadline.
    pub fn new() -> Self {
        Self::default()
    }

    /// A caller that `cancel` cancels.
    pub fn cancelled_by(cancel: &CancelToken) -> Self {
        Self { cancel: cancel.clone(), ..Self::default() }
    }

    /// The same caller with a deadline.
    #[must_use]
    pub fn with_deadline(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    /// The context of its calls.
    pub fn cx(&self) -> Context<'_> {
        Context::new(&self.files, &self.cancel, self).with_deadline(self.deadline)
    }

    /// The warnings so far, in order.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().map(|warnings| warnings.clone()).unwrap_or_default()
    }
}

impl Diagnostics for TestContext {
    fn warn(&self, text: String) {
        if let Ok(mut warnings) = self.warnings.lock() {
            warnings.push(text);
        }
    }
}

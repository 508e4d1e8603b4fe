//! Kernels that are made here, whole and broken.

#![expect(clippy::unwrap_used, reason = "helpers of tests are not themselves marked as tests")]

mod hostile;
mod made;
mod refusals;

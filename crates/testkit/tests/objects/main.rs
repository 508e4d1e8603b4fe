//! The objects that the test kit writes, read by readers that had no part in writing them.

#![expect(clippy::unwrap_used, reason = "helpers of tests are not themselves marked as tests")]

mod goblin_reads;
mod readelf_reads;
mod written;

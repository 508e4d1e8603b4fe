//! Any bytes as signatures, as a list of trusted keys, and as a key.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| opkeep_trust::fuzz(bytes));

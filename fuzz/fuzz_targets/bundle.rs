//! Any bytes as a bundle, with all of its entries.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| opkeep_bundle::fuzz(bytes));

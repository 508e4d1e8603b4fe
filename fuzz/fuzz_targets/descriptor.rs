//! Any bytes as a descriptor of any generation.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| opkeep_descriptor::fuzz(bytes));

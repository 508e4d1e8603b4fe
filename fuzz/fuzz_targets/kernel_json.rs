//! Descriptions of kernels, as they come.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| opkeep_cann_meta::fuzz(bytes));

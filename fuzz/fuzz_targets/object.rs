//! Kernel objects, as they come.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| opbuild_validator::fuzz(bytes));

//! Descriptions of kernels, as they come.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| opbuild_artifact::fuzz(bytes));

//! The version of the library, and the last error.

use std::ffi::c_char;

use crate::code::Code;
use crate::ffi::types::OPKEEP_ABI;
use crate::last_error;

/// The number of the interface of the library that is loaded, to compare with `OPKEEP_ABI`. Never fails.
#[unsafe(no_mangle)]
pub extern "C" fn opkeep_abi() -> u32 {
    OPKEEP_ABI
}

/// The release of the library, such as `0.1.0`. The text exists as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn opkeep_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// The code of the last call in this thread that did not succeed. A call that succeeds does not change it.
#[unsafe(no_mangle)]
pub extern "C" fn opkeep_last_code() -> Code {
    last_error::code()
}

/// The message of the last call in this thread that did not succeed: the problem, its place, and a remedy if there is one.
/// Empty if there was none. The text exists until the next call in this thread that does not succeed, or the thread's end.
#[unsafe(no_mangle)]
pub extern "C" fn opkeep_last_message() -> *const c_char {
    last_error::message()
}

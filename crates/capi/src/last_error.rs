//! The last error of each thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

use crate::code::Code;
use crate::error::Error;

thread_local! {
    static LAST: RefCell<(Code, CString)> = RefCell::new((Code::Ok, CString::default()));
}

/// Records an error of the calling thread.
pub(crate) fn set(error: Error) {
    let message = c_text(error.message);
    // A thread that is ending has no place for an error.
    let _ = LAST.try_with(|last| *last.borrow_mut() = (error.code, message));
}

/// The code of the thread's last error.
pub(crate) fn code() -> Code {
    LAST.try_with(|last| last.borrow().0).unwrap_or(Code::Ok)
}

/// The message of the thread's last error, which the thread keeps until its next error.
pub(crate) fn message() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(c"".as_ptr())
}

/// `text` for C: a byte 0 in it, which only a hostile file can cause, becomes `?`.
pub(crate) fn c_text(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).unwrap_or_else(|error| {
        let mut bytes = error.into_vec();
        bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'?');
        bytes.push(0);
        CStr::from_bytes_until_nul(&bytes).map(CStr::to_owned).unwrap_or_default()
    })
}

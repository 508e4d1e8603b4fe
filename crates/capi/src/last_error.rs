//! The last error of each thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::LocalKey;

use crate::code::Code;
use crate::error::Error;

thread_local! {
    static LAST: RefCell<(Code, CString)> = RefCell::new((Code::Ok, CString::default()));
}

/// Texts of threads that are ending, which have no place for them any more: handlers of `atexit`, and destructors, may run that
/// late. They are few, and stay.
struct Late {
    texts: Vec<CString>,
    /// The last error, with the index of its message.
    last: Option<(Code, usize)>,
}

static LATE: Mutex<Late> = Mutex::new(Late { texts: Vec::new(), last: None });

fn late() -> MutexGuard<'static, Late> {
    LATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records an error of the calling thread.
pub(crate) fn set(error: Error) {
    let mut message = c_text(error.message);
    let own = LAST.try_with(|last| *last.borrow_mut() = (error.code, std::mem::take(&mut message)));
    if own.is_err() {
        let mut late = late();
        late.last = Some((error.code, late.texts.len()));
        late.texts.push(message);
    }
}

/// The code of the thread's last error.
pub(crate) fn code() -> Code {
    LAST.try_with(|last| last.borrow().0).unwrap_or_else(|_| late().last.map_or(Code::Ok, |(code, _)| code))
}

/// The message of the thread's last error, which the thread keeps until its next error.
pub(crate) fn message() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or_else(|_| {
        let late = late();
        let text = late.last.and_then(|(_, index)| late.texts.get(index));
        text.map_or(c"".as_ptr(), |text| text.as_ptr())
    })
}

/// Keeps `text` in a place of the calling thread, in place of the text there.
pub(crate) fn keep(place: &'static LocalKey<RefCell<CString>>, mut text: CString) -> *const c_char {
    let kept = place.try_with(|kept| {
        *kept.borrow_mut() = std::mem::take(&mut text);
        kept.borrow().as_ptr()
    });
    kept.unwrap_or_else(|_| {
        let kept = text.as_ptr();
        late().texts.push(text);
        kept
    })
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

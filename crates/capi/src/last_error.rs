//! The last error of each thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, PoisonError};
use std::thread::LocalKey;

use opkeep_fs::{thread_number, without_fork};

use crate::code::Code;
use crate::error::Error;

thread_local! {
    static LAST: RefCell<(Code, CString)> = RefCell::new((Code::Ok, CString::default()));
}

/// A text of a thread that is ending, which has no place for it any more: handlers of `atexit`, and destructors, may run that
/// late. A thread has one text for each place.
struct LateText {
    thread: u64,
    /// The address of the place that has ended.
    place: usize,
    code: Code,
    text: CString,
}

/// The maximum number of late texts. The oldest are removed: their threads have ended by then.
const MOST_LATE: usize = 1024;

fn late<T>(change: impl FnOnce(&mut VecDeque<LateText>) -> T) -> T {
    static LATE: Mutex<VecDeque<LateText>> = Mutex::new(VecDeque::new());
    without_fork(|| change(&mut LATE.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn keep_late(place: usize, code: Code, text: CString) -> *const c_char {
    let (thread, kept) = (thread_number(), text.as_ptr());
    late(|texts| {
        texts.retain(|text| (text.thread, text.place) != (thread, place));
        texts.drain(..(texts.len() + 1).saturating_sub(MOST_LATE));
        texts.push_back(LateText { thread, place, code, text });
    });
    kept
}

/// The calling thread's late error.
fn late_error() -> (Code, *const c_char) {
    let (thread, place) = (thread_number(), address(&LAST));
    late(|texts| {
        let error = texts.iter().find(|text| (text.thread, text.place) == (thread, place));
        error.map_or((Code::Ok, c"".as_ptr()), |error| (error.code, error.text.as_ptr()))
    })
}

fn address<T>(place: &'static LocalKey<T>) -> usize {
    std::ptr::from_ref(place).addr()
}

/// Records an error of the calling thread.
pub(crate) fn set(error: Error) {
    let mut message = c_text(error.message);
    let own = LAST.try_with(|last| *last.borrow_mut() = (error.code, std::mem::take(&mut message)));
    if own.is_err() {
        keep_late(address(&LAST), error.code, message);
    }
}

/// The code of the thread's last error.
pub(crate) fn code() -> Code {
    LAST.try_with(|last| last.borrow().0).unwrap_or_else(|_| late_error().0)
}

/// The message of the thread's last error, which the thread keeps until its next error.
pub(crate) fn message() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or_else(|_| late_error().1)
}

/// Keeps `text` in a place of the calling thread, in place of the text there.
pub(crate) fn keep(place: &'static LocalKey<RefCell<CString>>, mut text: CString) -> *const c_char {
    let kept = place.try_with(|kept| {
        *kept.borrow_mut() = std::mem::take(&mut text);
        kept.borrow().as_ptr()
    });
    kept.unwrap_or_else(|_| keep_late(address(place), Code::Ok, text))
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Barrier, Mutex, PoisonError};
    use std::thread;

    use super::*;

    /// The turn of a test: all of them keep their late texts in one list, whose oldest ones are dropped.
    static TURN: Mutex<()> = Mutex::new(());

    /// Uses the last error at the end of its thread.
    struct AtEnd {
        name: &'static str,
        both: Arc<Barrier>,
        found: Sender<(Code, Code, Vec<bool>)>,
    }

    impl Drop for AtEnd {
        fn drop(&mut self) {
            let before = code();
            for _ in 0..3 {
                set(Error::new(Code::Internal, self.name.to_owned()));
            }
            self.both.wait();
            let message = message();
            let own = late(|texts| {
                let own = texts.iter().filter(|text| text.thread == thread_number());
                own.map(|own| own.text.as_ptr() == message && own.text.to_bytes() == self.name.as_bytes())
                    .collect()
            });
            self.found.send((before, code(), own)).unwrap();
        }
    }

    thread_local! {
        static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }

    #[test]
    fn an_ending_thread_has_one_error_of_its_own() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (both, (found, finds)) = (Arc::new(Barrier::new(2)), channel());
        for name in ["first", "second"] {
            let end = AtEnd { name, both: Arc::clone(&both), found: found.clone() };
            thread::spawn(move || {
                // The place that is used first ends last.
                AT_END.set(Some(end));
                set(Error::new(Code::Argument, "early".to_owned()));
            });
        }
        for _ in 0..2 {
            assert_eq!(finds.recv().unwrap(), (Code::Ok, Code::Internal, vec![true]));
        }
    }

    #[test]
    fn late_texts_are_few() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        (0..MOST_LATE + 10).for_each(|place| _ = keep_late(place, Code::Ok, CString::default()));
        assert!(late(|texts| texts.len()) <= MOST_LATE);
    }
}

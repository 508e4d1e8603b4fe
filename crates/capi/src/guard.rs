//! The frame of each function of the interface: errors become codes, and a panic stays inside.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::code::Code;
use crate::error::Error;
use crate::last_error;

/// Runs the body of `function`. An error or a panic is recorded, and its code returned.
pub(crate) fn code(function: &str, body: impl FnOnce() -> Result<(), Error>) -> Code {
    match caught(body) {
        Ok(()) => Code::Ok,
        Err(error) => {
            let code = error.code;
            last_error::set(error.of(function));
            code
        }
    }
}

/// Runs the body of `function`. An error or a panic is recorded, and `failed` returned.
pub(crate) fn value<T>(function: &str, failed: T, body: impl FnOnce() -> Result<T, Error>) -> T {
    caught(body).unwrap_or_else(|error| {
        last_error::set(error.of(function));
        failed
    })
}

// After a panic the objects behind the handles are as their own locks leave them; nothing else is shared.
fn caught<T>(body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let message = format!("a fault of opkeep: {}", text(&*panic));
        // The drop of a foreign value might panic again.
        std::mem::forget(panic);
        Err(Error::new(Code::Internal, message))
    })
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_code_with_a_message() {
        assert_eq!(code("f", || panic!("number {}", 7)), Code::Internal);
        assert_eq!(last_error::code(), Code::Internal);
        assert_eq!(value("f", 3, || std::panic::panic_any(7_u8)), 3);
        assert_eq!(value("f", 3, || Ok(4)), 4);
        assert_eq!(code("f", || Err(Error::argument("no"))), Code::Argument);
    }
}

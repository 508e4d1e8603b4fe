//! Requests for files, and their cancellation.

use std::ffi::c_char;
use std::time::Duration;

use opkeep_embed::{
    CancelToken, GroupClaim, GroupTicket, Options, StoredExpectations, TargetFiles, encode_rules,
};

use crate::code::{Code, Outcome};
use crate::error::Error;
use crate::ffi::key::{self, Key};
use crate::ffi::pointers::{self, Growing};
use crate::ffi::types::{Cancel, Hit, OPKEEP_NO_WAIT, Target, Ticket};
use crate::handles::{self, Object};
use crate::report::decode_rules;
use crate::{guard, hit, last_error};

impl Object for CancelToken {
    const KIND: &'static str = "cancel";
}

impl Object for GroupTicket {
    const KIND: &'static str = "ticket";
}

/// The conditions of a request. Set it to zero, then set `size` and the fields that you need.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// `sizeof(opkeep_request)`.
    pub size: usize,
    /// The longest wait in milliseconds. If 0, there is no limit.
    pub timeout_ms: u64,
    /// The time in milliseconds without a heartbeat after which another caller's ticket is stale, and this caller makes the
    /// files. If 0, 30 seconds. The library gives the heartbeat of its tickets each second.
    pub stale_after_ms: u64,
    /// The longest time in milliseconds for which the ticket keeps other callers waiting. If 0, one hour. After that, one of
    /// them makes the files, and this ticket can still be published. If its process is stopped at that moment, they wait for
    /// their `stale_after_ms` in addition.
    pub hold_limit_ms: u64,
    /// A token that ends the wait; or an unset handle.
    pub cancel: Cancel,
    /// The rules for the kernel among the files, as JSON; or null. Files that were validated by other rules are validated
    /// again, and are not used if these refuse them.
    pub rules: *const c_char,
    /// 0, or `OPKEEP_NO_WAIT`.
    pub flags: u32,
}

// SAFETY: the struct is `repr(C)`, `size` is first, and the fields are numbers and pointers.
unsafe impl Growing for Request {}

/// The conditions of a request, checked.
struct Conditions {
    wait: bool,
    times: [Option<Duration>; 3],
    cancel: Option<CancelToken>,
    rules: Option<StoredExpectations>,
}

impl Conditions {
    /// # Safety
    /// The rules for pointers of [this module](crate::ffi).
    unsafe fn read(request: *const Request) -> Result<Self, Error> {
        if request.is_null() {
            return Ok(Self { wait: true, times: [None; 3], cancel: None, rules: None });
        }
        // SAFETY: the rules for pointers.
        let request = unsafe { pointers::growing(request, "request") }?;
        if request.flags & !OPKEEP_NO_WAIT != 0 {
            return Err(Error::argument(format!(
                "`request->flags` is {:#x}, expected 0 or 1",
                request.flags
            )));
        }
        let cancel = match request.cancel.id {
            0 => None,
            id => Some(handles::get::<CancelToken>(id)?.as_ref().clone()),
        };
        // SAFETY: the rules for pointers.
        let rules = unsafe { pointers::optional_text(request.rules, "request->rules") }?;
        let time = |milliseconds| (milliseconds > 0).then(|| Duration::from_millis(milliseconds));
        Ok(Self {
            wait: request.flags & OPKEEP_NO_WAIT == 0,
            times: [request.timeout_ms, request.stale_after_ms, request.hold_limit_ms].map(time),
            cancel,
            rules: rules.map(|rules| decode_rules(rules, "request->rules").map(encode_rules)).transpose()?,
        })
    }

    fn options(&self) -> Options<'_> {
        let mut options = Options::default();
        let [timeout, stale_after, hold_limit] = self.times;
        options.wait = self.wait;
        options.stale_after = stale_after.unwrap_or(options.stale_after);
        options.hold_limit = hold_limit.unwrap_or(options.hold_limit);
        options.cancel = self.cancel.as_ref();
        options.expectations = self.rules.as_ref();
        match timeout {
            Some(timeout) => options.with_timeout(timeout),
            None => options,
        }
    }
}

/// Requests files without waiting, and without a ticket if they are not there.
///
/// The results are `OPKEEP_OUTCOME_HIT` with a hit that the caller releases, `OPKEEP_OUTCOME_MISS`, and
/// `OPKEEP_OUTCOME_ERROR`. Every byte of the files was checked against its digest.
///
/// Errors: `HANDLE`, `ARGUMENT`, `STORE`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_get(target: Target, key: *const Key, hit: *mut Hit) -> Outcome {
    guard::value("opkeep_get", Outcome::Error, || {
        // SAFETY: the rules for pointers.
        let mut hit = unsafe { pointers::output(hit, Hit { id: 0 }, "hit") }?;
        let target = handles::get::<TargetFiles>(target.id)?;
        // SAFETY: the rules for pointers.
        let key = unsafe { key::read(key) }?;
        let Some(group) = target.get(&key)? else { return Ok(Outcome::Miss) };
        hit.set(Hit { id: handles::insert(hit::Hit::new(group)) });
        Ok(Outcome::Hit)
    })
}

/// Requests files, and waits while another caller on this host makes them. If they are not there, this caller gets the
/// ticket to make them. `request` may be null.
///
/// With `OPKEEP_OUTCOME_HIT` the caller must release `hit`, with `OPKEEP_OUTCOME_BEGIN` and `OPKEEP_OUTCOME_UNSHARED` it must
/// release `ticket`; all other handles have the `id` 0. If the process of a ticket is killed, a waiter gets the ticket
/// within 50 ms.
///
/// A thread that holds a ticket never waits for another key: it gets an unshared ticket instead, so that two callers that
/// need each other's files do not wait for each other. While another thread of the process holds the ticket of another key, the
/// wait ends with an unshared ticket after 30 seconds, since that thread may wait for this one. A ticket is held until it is
/// published, abandoned or released, also if its thread ends. The wait is no cancellation point of `pthread_cancel`.
///
/// Errors: `HANDLE`, `ARGUMENT`, `RULES`, `NOT_CACHED`, `STORE`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_get_or_begin(
    target: Target,
    key: *const Key,
    request: *const Request,
    hit: *mut Hit,
    ticket: *mut Ticket,
) -> Outcome {
    guard::value("opkeep_get_or_begin", Outcome::Error, || {
        // SAFETY: the rules for pointers.
        let mut hit = unsafe { pointers::output(hit, Hit { id: 0 }, "hit") }?;
        // SAFETY: the rules for pointers.
        let mut ticket = unsafe { pointers::output(ticket, Ticket { id: 0 }, "ticket") }?;
        let target = handles::get::<TargetFiles>(target.id)?;
        // SAFETY: the rules for pointers.
        let key = unsafe { key::read(key) }?;
        // SAFETY: the rules for pointers.
        let conditions = unsafe { Conditions::read(request) }?;
        let reason = |code, text: String| last_error::set(Error::new(code, text));
        Ok(match target.get_or_begin(&key, &conditions.options())? {
            GroupClaim::Hit(group) => {
                hit.set(Hit { id: handles::insert(hit::Hit::new(group)) });
                Outcome::Hit
            }
            GroupClaim::Begin(begun) => {
                ticket.set(Ticket { id: handles::insert(begun) });
                Outcome::Begin
            }
            GroupClaim::Unshared(begun, why) => {
                ticket.set(Ticket { id: handles::insert(begun) });
                reason(Code::Unshared, why.to_string());
                Outcome::Unshared
            }
            GroupClaim::HolderFailed(why) => {
                reason(Code::HolderFailed, why);
                Outcome::HolderFailed
            }
            GroupClaim::TimedOut => {
                reason(Code::TimedOut, "the time passed while another caller made the files".to_owned());
                Outcome::TimedOut
            }
            GroupClaim::Cancelled => {
                reason(Code::Cancelled, "the wait was cancelled".to_owned());
                Outcome::Cancelled
            }
            other => return Err(Error::new(Code::Internal, format!("an unknown claim: {other:?}"))),
        })
    })
}

/// Creates a token that cancels waits. The caller releases it with `opkeep_cancel_release`.
///
/// Errors: `ARGUMENT`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_cancel_new(cancel: *mut Cancel) -> Code {
    guard::code("opkeep_cancel_new", || {
        // SAFETY: the rules for pointers.
        let mut cancel = unsafe { pointers::output(cancel, Cancel { id: 0 }, "cancel") }?;
        cancel.set(Cancel { id: handles::insert(CancelToken::new()) });
        Ok(())
    })
}

/// Cancels all waits of this process with this token, now and later. Any thread may call it, but no signal
/// handler: to cancel at a signal, have a thread wait for it with `sigwait`.
///
/// Errors: `HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn opkeep_cancel_request(cancel: Cancel) -> Code {
    guard::code("opkeep_cancel_request", || {
        handles::get::<CancelToken>(cancel.id)?.cancel();
        Ok(())
    })
}

/// Releases a token. Waits that have it go on, and cannot be cancelled any longer. A handle whose `id` is 0 is ignored.
///
/// Errors: `HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn opkeep_cancel_release(cancel: Cancel) -> Code {
    guard::code("opkeep_cancel_release", || handles::release::<CancelToken>(cancel.id))
}

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
use crate::ffi::types::{Cancel, Hit, OPKEEP_NO_WAIT, OPKEEP_STAYS_HERE, Target, Ticket};
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
    /// 0, `OPKEEP_NO_WAIT`, `OPKEEP_STAYS_HERE`, or both.
    pub flags: u32,
}

// SAFETY: the struct is `repr(C)`, `size` is first, and the fields are numbers and pointers.
unsafe impl Growing for Request {
    const FIRST_SIZE: usize =
        pointers::first_size!(Request: size, timeout_ms, stale_after_ms, hold_limit_ms, cancel, rules, flags);
}

/// The result for one key of `opkeep_get_or_begin_many`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The result.
    pub outcome: Outcome,
    /// The hit, which the caller must release, if that is the result.
    pub hit: Hit,
    /// The ticket, which the caller must release, if the result is `OPKEEP_OUTCOME_BEGIN` or `OPKEEP_OUTCOME_UNSHARED`.
    pub ticket: Ticket,
}

/// The conditions of a request, checked.
struct Conditions {
    wait: bool,
    stays_here: bool,
    times: [Option<Duration>; 3],
    cancel: Option<CancelToken>,
    rules: Option<StoredExpectations>,
}

impl Conditions {
    /// # Safety
    /// The rules for pointers of [this module](crate::ffi).
    unsafe fn read(request: *const Request) -> Result<Self, Error> {
        if request.is_null() {
            return Ok(Self { wait: true, stays_here: false, times: [None; 3], cancel: None, rules: None });
        }
        // SAFETY: the rules for pointers.
        let request = unsafe { pointers::growing(request, "request") }?;
        if request.flags & !(OPKEEP_NO_WAIT | OPKEEP_STAYS_HERE) != 0 {
            return Err(Error::argument(format!(
                "`request->flags` is {:#x}, expected 0 to 3",
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
            stays_here: request.flags & OPKEEP_STAYS_HERE != 0,
            times: [request.timeout_ms, request.stale_after_ms, request.hold_limit_ms].map(time),
            cancel,
            rules: rules.map(|rules| decode_rules(rules, "request->rules").map(encode_rules)).transpose()?,
        })
    }

    fn options(&self) -> Options<'_> {
        let mut options = Options::default();
        let [timeout, stale_after, hold_limit] = self.times;
        (options.wait, options.stays_here) = (self.wait, self.stays_here);
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

/// Requests files without waiting for other callers, and without a ticket if they are not there. A remote cache is asked if the store
/// does not have them.
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

/// Requests files, and waits while another caller makes them, on this host or, with a remote cache, on another one. If they are not
/// there, this caller gets the ticket to make them. `request` may be null.
///
/// With `OPKEEP_OUTCOME_HIT` the caller must release `hit`, with `OPKEEP_OUTCOME_BEGIN` and `OPKEEP_OUTCOME_UNSHARED` it must
/// release `ticket`; all other handles have the `id` 0. If the process of a ticket is killed, a waiter gets the ticket
/// within 50 ms, and one on another host within 30 seconds. A caller on another host that does not end its ticket is waited for one
/// minute and these 30 seconds, since it may wait for this one; then this caller gets a ticket, too.
///
/// The calls of one request to the remote cache take 10 seconds together at most; then it goes on without the cache.
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
        let answer = answer(target.get_or_begin(&key, &conditions.options())?)?;
        hit.set(answer.hit);
        ticket.set(answer.ticket);
        Ok(answer.outcome)
    })
}

/// Requests the files of `count` keys, for a caller that knows what it will need. The results are `answers[0]` to
/// `answers[count - 1]`, in the order of the keys. `request` may be null.
///
/// The files that the store does not have are requested from a remote cache in one call. The caller gets at most `max_tickets` tickets:
/// as many as it makes at a time, so that other hosts can make the rest. Nothing is waited for but the remote cache. For all other
/// files that are not there, the result is `OPKEEP_OUTCOME_PENDING`: the caller requests these with `opkeep_get_or_begin` when it has
/// published its tickets. `OPKEEP_NO_WAIT` has no effect.
///
/// If the call fails, there is no handle to release, and each outcome is `OPKEEP_OUTCOME_ERROR`.
///
/// Errors: those of `opkeep_get_or_begin`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_get_or_begin_many(
    target: Target,
    keys: *const *const Key,
    count: usize,
    max_tickets: usize,
    request: *const Request,
    answers: *mut Answer,
) -> Code {
    guard::code("opkeep_get_or_begin_many", || {
        // SAFETY: the rules for pointers.
        let mut answers = unsafe { pointers::output_array(answers, count, NO_ANSWER, "answers") }?;
        let target = handles::get::<TargetFiles>(target.id)?;
        // SAFETY: the rules for pointers.
        let keys = unsafe { pointers::array(keys, count, "keys") }?;
        // SAFETY: the rules for pointers.
        let keys: Vec<_> = keys.iter().map(|key| unsafe { key::read(*key) }).collect::<Result<_, _>>()?;
        // SAFETY: the rules for pointers.
        let conditions = unsafe { Conditions::read(request) }?;
        let claims = target.get_or_begin_many(&keys, max_tickets, &conditions.options())?;
        for (index, claim) in claims.into_iter().enumerate() {
            answers.set(index, answer(claim)?);
        }
        Ok(())
    })
}

const NO_ANSWER: Answer = Answer { outcome: Outcome::Error, hit: Hit { id: 0 }, ticket: Ticket { id: 0 } };

/// Creates the handles of a claim. The text of a claim without files becomes the last message.
fn answer(claim: GroupClaim) -> Result<Answer, Error> {
    let reason = |code, text: String| last_error::set(Error::new(code, text));
    let ticket = |outcome, begun: GroupTicket| Answer {
        outcome,
        ticket: Ticket { id: handles::insert(begun) },
        ..NO_ANSWER
    };
    let without = |outcome| Answer { outcome, ..NO_ANSWER };
    Ok(match claim {
        GroupClaim::Hit(group) => {
            let hit = Hit { id: handles::insert(hit::Hit::new(group)) };
            Answer { outcome: Outcome::Hit, hit, ..NO_ANSWER }
        }
        GroupClaim::Begin(begun) => ticket(Outcome::Begin, begun),
        GroupClaim::Unshared(begun, why) => {
            reason(Code::Unshared, why.to_string());
            ticket(Outcome::Unshared, begun)
        }
        GroupClaim::HolderFailed(why) => {
            reason(Code::HolderFailed, why);
            without(Outcome::HolderFailed)
        }
        GroupClaim::TimedOut => {
            reason(Code::TimedOut, "the time passed while another caller made the files".to_owned());
            without(Outcome::TimedOut)
        }
        GroupClaim::Cancelled => {
            reason(Code::Cancelled, "the wait was cancelled".to_owned());
            without(Outcome::Cancelled)
        }
        GroupClaim::Pending => {
            reason(
                Code::Pending,
                "the files are not there, and this caller does not make them now".to_owned(),
            );
            without(Outcome::Pending)
        }
        other => return Err(Error::new(Code::Internal, format!("an unknown claim: {other:?}"))),
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

//! Tickets: publish and abandon.

use std::ffi::{c_char, c_int};
use std::time::Duration;

use opkeep_embed::{EmbedError, GroupTicket, MAX_GROUP_FILES, NewGroup, TargetFiles, encode_rules};

use crate::code::Code;
use crate::error::Error;
use crate::ffi::key::{self, Key};
use crate::ffi::pointers::{self, Growing, ItemField};
use crate::ffi::types::{File, OPKEEP_LOCAL, Target, Ticket};
use crate::report::decode_rules;
use crate::{guard, handles};

/// Files to publish, and what reports state of them. Set it to zero, then set `size` and the fields that you need.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// `sizeof(opkeep_group)`.
    pub size: usize,
    /// The files, 1 to 60, which have at most 1023 MiB together. They are copied to the store.
    pub files: *const File,
    /// The number of files.
    pub file_count: usize,
    /// The release of the framework; or null. At most 4096 bytes.
    pub framework_version: *const c_char,
    /// The name of the kernel; or null. At most 4096 bytes.
    pub kernel: *const c_char,
    /// The name of the file with the kernel's object; or null.
    pub object: *const c_char,
    /// The name of the file with the kernel's metadata; or null.
    pub metadata: *const c_char,
    /// The rules for the kernel, as JSON; or null. They need `object`.
    pub rules: *const c_char,
    /// The compile time in microseconds. If 0, it is the time since the ticket was taken.
    pub compile_time_us: u64,
    /// 0, or `OPKEEP_LOCAL`.
    pub flags: u32,
}

// SAFETY: the struct is `repr(C)`, `size` is first, and the fields are numbers and pointers.
unsafe impl Growing for Group {
    const FIRST_SIZE: usize = pointers::first_size!(Group: size, files, file_count, framework_version, kernel, object, metadata, rules, compile_time_us, flags);
}

/// Passes the group to `publish`, which returns whether it was written.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
unsafe fn with_group(
    group: *const Group,
    written: *mut c_int,
    publish: impl FnOnce(&NewGroup<'_>) -> Result<bool, EmbedError>,
) -> Result<(), Error> {
    // SAFETY: the rules for pointers.
    let written = unsafe { pointers::optional_output(written, 0, "written") }?;
    // SAFETY: the rules for pointers.
    let group = unsafe { pointers::growing(group, "group") }?;
    if group.flags & !OPKEEP_LOCAL != 0 {
        return Err(Error::argument(format!("`group->flags` is {:#x}, expected 0 or 1", group.flags)));
    }
    // Checked here as well: a count that was never set leads to no file.
    if group.file_count > MAX_GROUP_FILES {
        return Err(EmbedError::TooManyFiles { found: group.file_count }.into());
    }
    // SAFETY: the rules for pointers.
    let files = unsafe { pointers::array(group.files, group.file_count, "group->files") }?;
    let mut members = Vec::with_capacity(files.len());
    for (index, file) in files.iter().enumerate() {
        let field = |field| ItemField { array: "group->files", index, field };
        // SAFETY: the rules for pointers.
        let name = unsafe { pointers::text(file.name, field("name")) }?;
        // SAFETY: the rules for pointers.
        let bytes = unsafe { pointers::bytes(file.data, file.size, field("data")) }?;
        members.push((name, bytes));
    }
    let text = |pointer, what| {
        // SAFETY: the rules for pointers; the texts exist during this call, and `publish` keeps none.
        unsafe { pointers::optional_text(pointer, what) }
    };
    let report_text = |pointer, what| {
        // SAFETY: as above.
        unsafe { pointers::report_text(pointer, what) }
    };
    let rules = text(group.rules, "group->rules")?;
    let rules = rules.map(|rules| decode_rules(rules, "group->rules").map(encode_rules)).transpose()?;
    if rules.is_some() && group.object.is_null() {
        return Err(Error::argument(
            "`group->rules` is set, and `group->object`, the name of the file that they are for, is a null pointer",
        ));
    }
    let mut new = NewGroup::new(members);
    new.framework_version =
        report_text(group.framework_version, "group->framework_version")?.unwrap_or_default();
    new.kernel = report_text(group.kernel, "group->kernel")?.unwrap_or_default();
    new.object = text(group.object, "group->object")?;
    new.metadata = text(group.metadata, "group->metadata")?;
    new.expectations = rules.as_ref();
    new.compile_time = (group.compile_time_us > 0).then(|| Duration::from_micros(group.compile_time_us));
    new.is_local = group.flags & OPKEEP_LOCAL != 0;
    let is_written = publish(&new)?;
    if let Some(mut written) = written {
        written.set(c_int::from(is_written));
    }
    Ok(())
}

/// Publishes the files: all of them, or none. This ends the ticket, and with it the waits; the handle must still be
/// released. `written` may be null; it is set to 1 if the files were written, and to 0 if the store is only read.
///
/// If the group is not valid (`GROUP`, `NAME`, `KERNEL`, `RULES`, `ARGUMENT`), the ticket stays, and the caller can publish a
/// corrected group. If the store cannot write the files (`STORE`), the ticket has ended, and the caller can use the files
/// that it made. `TICKET_ENDED`: it was published or abandoned before. `FORKED`: it is the parent's. `HANDLE`: the handle was
/// released before.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_publish(ticket: Ticket, group: *const Group, written: *mut c_int) -> Code {
    guard::code("opkeep_publish", || {
        let ticket = handles::get::<GroupTicket>(ticket.id)?;
        // SAFETY: the rules for pointers.
        unsafe { with_group(group, written, |group| ticket.publish(group)) }
    })
}

/// Publishes files without a ticket, in place of those that are there: for a caller that made them without a request.
///
/// Errors: those of `opkeep_publish` without those of tickets, and those of `opkeep_get`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_put(
    target: Target,
    key: *const Key,
    group: *const Group,
    written: *mut c_int,
) -> Code {
    guard::code("opkeep_put", || {
        let target = handles::get::<TargetFiles>(target.id)?;
        // SAFETY: the rules for pointers.
        let key = unsafe { key::read(key) }?;
        // SAFETY: the rules for pointers.
        unsafe { with_group(group, written, |group| target.publish(&key, group)) }
    })
}

/// Ends a ticket without files; the handle must still be released. With a reason, all waiters fail with it at once: for a
/// failure that would repeat. If `reason` is null, one of the waiters makes the files. A ticket that has ended stays as it is.
///
/// Errors: `HANDLE`, `ARGUMENT`, `FORKED`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_abandon(ticket: Ticket, reason: *const c_char) -> Code {
    guard::code("opkeep_abandon", || {
        let ticket = handles::get::<GroupTicket>(ticket.id)?;
        // SAFETY: the rules for pointers.
        let reason = unsafe { pointers::optional_text(reason, "reason") }?;
        Ok(ticket.abandon(reason)?)
    })
}

/// Releases a ticket. If it has not ended, it is abandoned without a reason. A handle whose `id` is 0 is ignored.
///
/// In a forked child, the parent's ticket stays as it is; only the handle is released.
///
/// Errors: `HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn opkeep_ticket_release(ticket: Ticket) -> Code {
    guard::code("opkeep_ticket_release", || {
        // Ends it at once, even if another thread uses it at the moment. In a forked child, this is an error that says that
        // the parent's ticket stays.
        if let Ok(ticket) = handles::get::<GroupTicket>(ticket.id) {
            let _ = ticket.abandon(None);
        }
        handles::release::<GroupTicket>(ticket.id)
    })
}

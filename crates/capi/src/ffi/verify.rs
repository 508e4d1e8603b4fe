//! The validation of a kernel in memory.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_void};
use std::ptr;

use crate::code::{Code, Severity};
use crate::error::Error;
use crate::ffi::pointers::{self, Growing};
use crate::ffi::types::Report;
use crate::{guard, handles, last_error, report};

/// A kernel in memory: an object, and the metadata that belongs to it. Set it to zero, then set `size` and the fields that
/// you need.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// `sizeof(opkeep_pair)`.
    pub size: usize,
    /// A target that opkeep knows, such as `cpu-x86_64` or `Ascend910B1`. Required, unless there are rules.
    pub target: *const c_char,
    /// The rules, as JSON; or null for those of the target, if it is a built-in one.
    pub rules: *const c_char,
    /// The bytes of the object.
    pub object: *const c_void,
    /// Their number.
    pub object_size: usize,
    /// The bytes of the metadata; or null.
    pub metadata: *const c_void,
    /// Their number.
    pub metadata_size: usize,
}

// SAFETY: the struct is `repr(C)`, `size` is first, and the fields are numbers and pointers.
unsafe impl Growing for Pair {
    const FIRST_SIZE: usize =
        pointers::first_size!(Pair: size, target, rules, object, object_size, metadata, metadata_size);
}

/// A finding of a validation. The texts exist until the report is released.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Finding {
    /// The stable code, such as `OPV020`.
    pub code: *const c_char,
    /// The code, the problem, and a remedy.
    pub text: *const c_char,
    /// The severity. Only errors make a kernel invalid.
    pub severity: Severity,
}

thread_local! {
    /// The rules that the thread asked for last.
    static RULES: RefCell<CString> = RefCell::default();
}

/// The rules for kernels of `format`, an `opkeep_format`, and `architecture`, as JSON for the other functions. `target` is the
/// name of the target in the store, such as `cuda-sm_90`. The text exists until the next call of this function in this
/// thread, or the thread's end.
///
/// A cubin or an hsaco for an unknown architecture has no rule for its architecture.
///
/// Errors: `RULES` (no built-in target), `ARGUMENT`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_rules(
    format: u32,
    architecture: *const c_char,
    target: *const c_char,
    rules: *mut *const c_char,
) -> Code {
    guard::code("opkeep_rules", || {
        // SAFETY: the rules for pointers.
        let mut output = unsafe { pointers::output(rules, ptr::null(), "rules") }?;
        // SAFETY: the rules for pointers.
        let architecture = unsafe { pointers::text(architecture, "architecture") }?;
        // SAFETY: the rules for pointers.
        let target = unsafe { pointers::text(target, "target") }?;
        let text = report::rules_of(format, architecture, target)?;
        output.set(last_error::keep(&RULES, text));
        Ok(())
    })
}

/// Validates a kernel in memory. The result is a report, also if the kernel is not valid; the caller releases it with
/// `opkeep_report_release`.
///
/// Errors: `RULES` (they cannot be read, or the target is no built-in one), `ARGUMENT`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_verify(pair: *const Pair, report: *mut Report) -> Code {
    guard::code("opkeep_verify", || {
        // SAFETY: the rules for pointers.
        let mut output = unsafe { pointers::output(report, Report { id: 0 }, "report") }?;
        // SAFETY: the rules for pointers.
        let pair = unsafe { pointers::growing(pair, "pair") }?;
        // SAFETY: the rules for pointers.
        let rules = match unsafe { pointers::optional_text(pair.rules, "pair->rules") }? {
            // The rules name their target.
            Some(rules) => report::decode_rules(rules, "pair->rules")?,
            // SAFETY: the rules for pointers.
            None => report::rules_of_target(unsafe { pointers::text(pair.target, "pair->target") }?)?,
        };
        // SAFETY: the rules for pointers.
        let object = unsafe { pointers::bytes(pair.object, pair.object_size, "pair->object") }?;
        // SAFETY: the rules for pointers.
        let metadata = unsafe { pointers::bytes(pair.metadata, pair.metadata_size, "pair->metadata") }?;
        output.set(Report { id: handles::insert(report::Report::of(object, metadata, &rules)) });
        Ok(())
    })
}

/// The number of findings, and of those that are errors: a kernel without errors is valid. Either pointer may be null.
///
/// Errors: `HANDLE`, `ARGUMENT`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_report_counts(
    report: Report,
    findings: *mut usize,
    errors: *mut usize,
) -> Code {
    guard::code("opkeep_report_counts", || {
        // SAFETY: the rules for pointers.
        let findings = unsafe { pointers::optional_output(findings, 0, "findings") }?;
        // SAFETY: the rules for pointers.
        let errors = unsafe { pointers::optional_output(errors, 0, "errors") }?;
        let report = handles::get::<report::Report>(report.id)?;
        if let Some(mut findings) = findings {
            findings.set(report.findings.len());
        }
        if let Some(mut errors) = errors {
            errors.set(report.errors);
        }
        Ok(())
    })
}

/// The finding number `index`; the most severe ones are first.
///
/// Errors: `NOT_FOUND`, `HANDLE`, `ARGUMENT`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_report_finding(report: Report, index: usize, finding: *mut Finding) -> Code {
    guard::code("opkeep_report_finding", || {
        let none = Finding { code: c"".as_ptr(), text: c"".as_ptr(), severity: Severity::Note };
        // SAFETY: the rules for pointers.
        let mut output = unsafe { pointers::output(finding, none, "finding") }?;
        let report = handles::get::<report::Report>(report.id)?;
        let found = report
            .findings
            .get(index)
            .ok_or_else(|| Error::new(Code::NotFound, format!("the report has no finding {index}")))?;
        let report::ReportFinding { severity, code, text } = found;
        output.set(Finding { code: code.as_ptr(), text: text.as_ptr(), severity: *severity });
        Ok(())
    })
}

/// Releases a report: its texts are no longer valid. A handle whose `id` is 0 is ignored.
///
/// Errors: `HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn opkeep_report_release(report: Report) -> Code {
    guard::code("opkeep_report_release", || handles::release::<report::Report>(report.id))
}

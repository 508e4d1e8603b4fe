//! The files of a hit.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use crate::code::Code;
use crate::error::Error;
use crate::ffi::pointers::{self, Growing};
use crate::ffi::types::{File, Hit, OPKEEP_DIGEST_SIZE};
use crate::{guard, handles, hit};

/// What is known of the files of a hit. Set `size` before the call. The texts exist until the hit is released, and are
/// empty, or null where stated, if the record of the files is damaged, or if a later version of the library wrote it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HitInfo {
    /// `sizeof(opkeep_info)`.
    pub size: usize,
    /// The name of the framework.
    pub framework: *const c_char,
    /// The release of the framework; empty if unknown.
    pub framework_version: *const c_char,
    /// The name of the target.
    pub target: *const c_char,
    /// The name of the kernel; empty if unknown.
    pub kernel: *const c_char,
    /// The name of the file with the kernel's object; null if there is none.
    pub object: *const c_char,
    /// The name of the file with the kernel's metadata; null if there is none.
    pub metadata: *const c_char,
    /// The compile time in microseconds; 0 if unknown.
    pub compile_time_us: u64,
    /// The key of the entry, which the command line shows.
    pub entry_key: [u8; OPKEEP_DIGEST_SIZE],
    /// 1 if another caller made the files while this one waited, else 0.
    pub waited: c_int,
    /// 0. It stands where the struct of the first version ended.
    pub reserved: c_int,
    /// 1 if the files came from the remote cache at this request, else 0.
    pub from_remote: c_int,
}

// SAFETY: the struct is `repr(C)`, `size` is first, and the fields are numbers and pointers.
unsafe impl Growing for HitInfo {
    const FIRST_SIZE: usize = pointers::first_size!(HitInfo: size, framework, framework_version, target, kernel, object, metadata, compile_time_us, entry_key, waited, reserved; from_remote);
}

const NO_FILE: File = File { name: ptr::null(), data: ptr::null(), size: 0 };

fn file((name, bytes): (&CStr, &[u8])) -> File {
    File { name: name.as_ptr(), data: bytes.as_ptr().cast(), size: bytes.len() }
}

/// The number of files, at least 1. 0 if the handle is not valid.
#[unsafe(no_mangle)]
pub extern "C" fn opkeep_hit_count(hit: Hit) -> usize {
    guard::value("opkeep_hit_count", 0, || Ok(handles::get::<hit::Hit>(hit.id)?.count()))
}

/// The file number `index`, in the order in which the files were published. Nothing is copied: `file` points into the hit,
/// and is valid until the hit is released. The bytes must not be changed.
///
/// Not detected: the use of the bytes after the hit was released, by this or another thread.
///
/// Errors: `NOT_FOUND`, `HANDLE`, `ARGUMENT`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_hit_file(hit: Hit, index: usize, found: *mut File) -> Code {
    guard::code("opkeep_hit_file", || {
        // SAFETY: the rules for pointers.
        let mut output = unsafe { pointers::output(found, NO_FILE, "found") }?;
        let hit = handles::get::<hit::Hit>(hit.id)?;
        let found = hit.file(index).ok_or_else(|| {
            Error::new(Code::NotFound, format!("there is no file {index}: the hit has {}", hit.count()))
        })?;
        output.set(file(found));
        Ok(())
    })
}

/// The file called `name`, as `opkeep_hit_file`.
///
/// Errors: `NOT_FOUND`, `HANDLE`, `ARGUMENT`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_hit_find(hit: Hit, name: *const c_char, found: *mut File) -> Code {
    guard::code("opkeep_hit_find", || {
        // SAFETY: the rules for pointers.
        let mut output = unsafe { pointers::output(found, NO_FILE, "found") }?;
        let hit = handles::get::<hit::Hit>(hit.id)?;
        // SAFETY: the rules for pointers.
        let name = unsafe { pointers::text(name, "name") }?;
        let found = hit
            .find(name)
            .ok_or_else(|| Error::new(Code::NotFound, format!("the hit has no file `{name}`")))?;
        output.set(file(found));
        Ok(())
    })
}

/// What is known of the files.
///
/// Errors: `HANDLE`, `ARGUMENT`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_hit_info(hit: Hit, info: *mut HitInfo) -> Code {
    guard::code("opkeep_hit_info", || {
        let hit = handles::get::<hit::Hit>(hit.id)?;
        let optional = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        let known = HitInfo {
            size: 0,
            framework: hit.info.framework.as_ptr(),
            framework_version: hit.info.framework_version.as_ptr(),
            target: hit.info.target.as_ptr(),
            kernel: hit.info.kernel.as_ptr(),
            object: optional(&hit.info.object),
            metadata: optional(&hit.info.metadata),
            compile_time_us: hit.info.compile_time_us,
            entry_key: *hit.key().as_bytes(),
            waited: c_int::from(hit.waited()),
            reserved: 0,
            from_remote: c_int::from(hit.came_from_remote()),
        };
        // SAFETY: the rules for pointers.
        unsafe { pointers::write_growing(info, known, "info") }
    })
}

/// Releases a hit: its files and texts are no longer valid. A handle whose `id` is 0 is ignored.
///
/// Errors: `HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn opkeep_hit_release(hit: Hit) -> Code {
    guard::code("opkeep_hit_release", || handles::release::<hit::Hit>(hit.id))
}

//! The only `unsafe` code of this crate: calls into the device's library, `libascendcl.so`.
//!
//! Functions are looked up when they are called, so a function that an older CANN lacks is an error only if it is
//! needed. Their types are those of CANN 8.1's `acl.h` and `acl_rt.h`, and have not changed since, up to the open
//! runtime of 2026; of `aclrtBinaryLoadFromData`, which 8.1 lacks, they are those of CANN 8.5's documentation. There,
//! `aclError` is an `int`, and all handles are `void *`.
#![expect(unsafe_code, reason = "calling the vendor's C library is what this module is for")]

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::AclError;
use crate::device::acl_codes::COMPILING_STUB_MODE;

/// The oldest CANN whose headers were read.
const CANN_8_1: &str = "8.1";
/// The maximum length of an error text that is reported.
const MAX_TEXT: usize = 4096;

const HUGE_FIRST: c_int = 0;
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;
const OPTION_MAGIC: c_int = 2;
const ATTRIBUTE_SCHEDULE_MODE: c_int = 1;

/// `aclrtBinaryLoadOption`: a kind, and a union whose largest member is four words.
#[repr(C)]
struct LoadOption {
    kind: c_int,
    value: [u32; 4],
}

/// `aclrtBinaryLoadOptions`.
#[repr(C)]
struct LoadOptions {
    options: *mut LoadOption,
    count: usize,
}

/// `aclrtLaunchKernelAttr`: the same shape.
#[repr(C)]
struct LaunchAttribute {
    kind: c_int,
    value: [u32; 4],
}

/// `aclrtLaunchKernelCfg`.
#[repr(C)]
struct LaunchConfig {
    attributes: *mut LaunchAttribute,
    count: usize,
}

/// A handle of the runtime's. What may be done with one is settled by the function that takes it.
#[derive(Debug)]
struct Handle(NonNull<c_void>);

// SAFETY: a handle is a number to this process; the runtime's functions that take one may be called from any thread
// whose context is the one that the handle was made in, and callers bind that first.
unsafe impl Send for Handle {}
// SAFETY: as above; the runtime locks what it keeps behind a handle.
unsafe impl Sync for Handle {}

/// A device's context, which calls are made in.
#[derive(Debug)]
pub(crate) struct Context(Handle);

/// A kernel object that the runtime has loaded.
#[derive(Debug)]
pub(crate) struct Binary(Handle);

/// A kernel in a [`Binary`].
#[derive(Debug)]
pub(crate) struct Function(Handle);

/// The loaded library.
#[derive(Debug)]
pub(crate) struct Acl {
    path: PathBuf,
    // Never closed: the runtime starts threads and keeps values for each thread, which outlive any of our handles.
    library: ManuallyDrop<Library>,
}

impl Acl {
    /// Loads the library at `path`; the system's loader looks up a bare name.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: loading runs the library's initialisers. It is the vendor's runtime, installed by who administers this
        // machine; that it does what it wants to this process is what using a device means.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        // The error itself says only that it failed; its source has the loader's words.
        let words = |error: libloading::Error| {
            error.source().map_or_else(|| error.to_string(), |source| source.to_string())
        };
        let library = ManuallyDrop::new(library.map_err(words)?);
        Ok(Self { path: path.to_owned(), library })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the library has a function.
    fn has(&self, name: &str) -> bool {
        // SAFETY: the symbol is only asked for, never called or read.
        unsafe { self.library.get::<*const c_void>(name.as_bytes()) }.is_ok()
    }

    /// A function of the library.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function of that name.
    unsafe fn function<F: Copy>(&self, name: &'static str) -> Result<F, AclError> {
        // SAFETY: the caller says that the type is right. The library is never closed, so the pointer stays good.
        let symbol = unsafe { self.library.get::<F>(name.as_bytes()) };
        symbol.map(|symbol| *symbol).map_err(|_| AclError::Symbol {
            symbol: name,
            library: self.path.clone(),
            since: CANN_8_1,
        })
    }

    fn checked(&self, call: &'static str, code: c_int) -> Result<(), AclError> {
        match code {
            0 => Ok(()),
            COMPILING_STUB_MODE => Err(AclError::Stub { library: self.path.clone() }),
            code => Err(AclError::Call { call, code, text: self.recent_error() }),
        }
    }

    /// The runtime's text for this thread's latest error.
    pub(crate) fn recent_error(&self) -> Option<String> {
        // SAFETY: `const char *aclGetRecentErrMsg()`.
        let function =
            unsafe { self.function::<unsafe extern "C" fn() -> *const c_char>("aclGetRecentErrMsg") }.ok()?;
        // SAFETY: it takes nothing.
        let text = NonNull::new(unsafe { function() }.cast_mut())?;
        // SAFETY: not null, so a C string, which stays until this thread's next call; it is copied here.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy();
        let text = text.trim();
        let cut = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= MAX_TEXT).last();
        let text = if text.len() > MAX_TEXT { &text[..cut.unwrap_or_default()] } else { text };
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(crate) fn init(&self) -> Result<(), AclError> {
        // SAFETY: `aclError aclInit(const char *configPath)`; null is no file.
        let code =
            unsafe { self.function::<unsafe extern "C" fn(*const c_char) -> c_int>("aclInit")?(ptr::null()) };
        self.checked("aclInit", code)
    }

    pub(crate) fn finalize(&self) -> Result<(), AclError> {
        // SAFETY: `aclError aclFinalize()`.
        let code = unsafe { self.function::<unsafe extern "C" fn() -> c_int>("aclFinalize")?() };
        self.checked("aclFinalize", code)
    }

    /// The chip's name; none if there is no driver or no device.
    pub(crate) fn soc_name(&self) -> Result<Option<String>, AclError> {
        // SAFETY: `const char *aclrtGetSocName()`.
        let name = unsafe { self.function::<unsafe extern "C" fn() -> *const c_char>("aclrtGetSocName")?() };
        let name = NonNull::new(name.cast_mut());
        // SAFETY: not null, so a C string, which the runtime keeps; it is copied here.
        Ok(name.map(|name| unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()))
    }

    pub(crate) fn device_count(&self) -> Result<u32, AclError> {
        const CALL: &str = "aclrtGetDeviceCount";
        let mut count = 0;
        // SAFETY: `aclError aclrtGetDeviceCount(uint32_t *)`, which writes the number.
        let code = unsafe { self.function::<unsafe extern "C" fn(*mut u32) -> c_int>(CALL)?(&raw mut count) };
        self.checked(CALL, code).map(|()| count)
    }

    pub(crate) fn set_device(&self, device: i32) -> Result<(), AclError> {
        const CALL: &str = "aclrtSetDevice";
        // SAFETY: `aclError aclrtSetDevice(int32_t)`.
        let code = unsafe { self.function::<unsafe extern "C" fn(i32) -> c_int>(CALL)?(device) };
        self.checked(CALL, code)
    }

    pub(crate) fn reset_device(&self, device: i32) -> Result<(), AclError> {
        const CALL: &str = "aclrtResetDevice";
        // SAFETY: `aclError aclrtResetDevice(int32_t)`.
        let code = unsafe { self.function::<unsafe extern "C" fn(i32) -> c_int>(CALL)?(device) };
        self.checked(CALL, code)
    }

    /// The context of this thread.
    pub(crate) fn current_context(&self) -> Result<Context, AclError> {
        let handle = self.made("aclrtGetCurrentContext", |name, made| {
            // SAFETY: `aclError aclrtGetCurrentContext(aclrtContext *)`, which writes the handle.
            Ok(unsafe { self.function::<unsafe extern "C" fn(*mut *mut c_void) -> c_int>(name)?(made) })
        })?;
        Ok(Context(handle))
    }

    /// Directs this thread's calls to `context`.
    pub(crate) fn set_current_context(&self, context: &Context) -> Result<(), AclError> {
        const CALL: &str = "aclrtSetCurrentContext";
        // SAFETY: `aclError aclrtSetCurrentContext(aclrtContext)`; the context came from the runtime.
        let code = unsafe {
            self.function::<unsafe extern "C" fn(*mut c_void) -> c_int>(CALL)?(context.0.0.as_ptr())
        };
        self.checked(CALL, code)
    }

    /// Whether kernels can be loaded from memory.
    pub(crate) fn loads_from_memory(&self) -> bool {
        self.has("aclrtBinaryLoadFromData")
    }

    pub(crate) fn load_from_data(&self, object: &[u8], magic: u32) -> Result<Binary, AclError> {
        type Load = unsafe extern "C" fn(*const c_void, usize, *const LoadOptions, *mut *mut c_void) -> c_int;
        let mut option = LoadOption { kind: OPTION_MAGIC, value: [magic, 0, 0, 0] };
        let options = LoadOptions { options: &raw mut option, count: 1 };
        let handle = self.made("aclrtBinaryLoadFromData", |name, made| {
            // SAFETY: `aclError aclrtBinaryLoadFromData(const void *, size_t, const aclrtBinaryLoadOptions *,
            // aclrtBinHandle *)`. The bytes and the options are borrowed for the call, which copies what it keeps: the
            // open runtime's does, and vendors' own callers free their bytes right after.
            Ok(unsafe {
                self.function::<Load>(name)?(object.as_ptr().cast(), object.len(), &raw const options, made)
            })
        })?;
        Ok(Binary(handle))
    }

    pub(crate) fn load_from_file(&self, path: &CStr, magic: u32) -> Result<Binary, AclError> {
        type Load = unsafe extern "C" fn(*const c_char, *mut LoadOptions, *mut *mut c_void) -> c_int;
        let mut option = LoadOption { kind: OPTION_MAGIC, value: [magic, 0, 0, 0] };
        let mut options = LoadOptions { options: &raw mut option, count: 1 };
        let handle = self.made("aclrtBinaryLoadFromFile", |name, made| {
            // SAFETY: `aclError aclrtBinaryLoadFromFile(const char *, aclrtBinaryLoadOptions *, aclrtBinHandle *)`;
            // path and options are borrowed for the call, which reads the file.
            Ok(unsafe { self.function::<Load>(name)?(path.as_ptr(), &raw mut options, made) })
        })?;
        Ok(Binary(handle))
    }

    /// Unloads a binary; none of its functions can be launched any more.
    pub(crate) fn unload(&self, binary: &Binary) -> Result<(), AclError> {
        const CALL: &str = "aclrtBinaryUnLoad";
        // SAFETY: `aclError aclrtBinaryUnLoad(aclrtBinHandle)`; the handle came from loading. The only caller is the drop
        // of what owns both binary and function, so it happens once, and nothing uses them later.
        let code = unsafe {
            self.function::<unsafe extern "C" fn(*mut c_void) -> c_int>(CALL)?(binary.0.0.as_ptr())
        };
        self.checked(CALL, code)
    }

    pub(crate) fn kernel(&self, binary: &Binary, kernel: &CString) -> Result<Function, AclError> {
        type Get = unsafe extern "C" fn(*mut c_void, *const c_char, *mut *mut c_void) -> c_int;
        let handle = self.made("aclrtBinaryGetFunction", |name, made| {
            // SAFETY: `aclError aclrtBinaryGetFunction(const aclrtBinHandle, const char *, aclrtFuncHandle *)`; the binary
            // is loaded, the name a C string.
            Ok(unsafe { self.function::<Get>(name)?(binary.0.0.as_ptr(), kernel.as_ptr(), made) })
        })?;
        Ok(Function(handle))
    }

    /// `bytes` of the device's memory.
    pub(crate) fn memory(&self, bytes: usize) -> Result<Memory<'_>, AclError> {
        // The runtime refuses to allocate 0 bytes, and a kernel takes an address for an empty tensor, too.
        let bytes = bytes.max(1);
        let at = self.made("aclrtMalloc", |name, made| {
            type Malloc = unsafe extern "C" fn(*mut *mut c_void, usize, c_int) -> c_int;
            // SAFETY: `aclError aclrtMalloc(void **, size_t, aclrtMemMallocPolicy)`, which writes the address.
            Ok(unsafe { self.function::<Malloc>(name)?(made, bytes, HUGE_FIRST) })
        })?;
        Ok(Memory { acl: self, at, bytes })
    }

    pub(crate) fn stream(&self) -> Result<Stream<'_>, AclError> {
        let handle = self.made("aclrtCreateStream", |name, made| {
            // SAFETY: `aclError aclrtCreateStream(aclrtStream *)`, which writes the handle.
            Ok(unsafe { self.function::<unsafe extern "C" fn(*mut *mut c_void) -> c_int>(name)?(made) })
        })?;
        Ok(Stream { acl: self, handle })
    }

    /// Calls a function that creates an object and writes its handle.
    fn made(
        &self,
        name: &'static str,
        call: impl FnOnce(&'static str, *mut *mut c_void) -> Result<c_int, AclError>,
    ) -> Result<Handle, AclError> {
        let mut made = ptr::null_mut();
        let code = call(name, &raw mut made)?;
        self.checked(name, code)?;
        NonNull::new(made).map(Handle).ok_or(AclError::Nothing { call: name })
    }
}

/// Memory of the device; freed when it is dropped.
#[derive(Debug)]
pub(crate) struct Memory<'a> {
    acl: &'a Acl,
    at: Handle,
    bytes: usize,
}

type Memcpy = unsafe extern "C" fn(*mut c_void, usize, *const c_void, usize, c_int) -> c_int;

impl Memory<'_> {
    /// The address, as a kernel takes it.
    pub(crate) fn address(&self) -> u64 {
        self.at.0.as_ptr().addr() as u64
    }

    /// Copies `bytes` there, which must be no more than it has.
    pub(crate) fn fill(&self, bytes: &[u8]) -> Result<(), AclError> {
        const CALL: &str = "aclrtMemcpy";
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: `aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind)`. It
        // is told how much there is to write to and refuses more; what it reads is borrowed until it returns, and this
        // variant returns when the copy is done.
        let code = unsafe {
            let (to, from) = (self.at.0.as_ptr(), bytes.as_ptr().cast());
            self.acl.function::<Memcpy>(CALL)?(to, self.bytes, from, bytes.len(), HOST_TO_DEVICE)
        };
        self.acl.checked(CALL, code)
    }

    /// Sets every byte to 0.
    pub(crate) fn clear(&self) -> Result<(), AclError> {
        const CALL: &str = "aclrtMemset";
        type Memset = unsafe extern "C" fn(*mut c_void, usize, i32, usize) -> c_int;
        // SAFETY: `aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)`; the memory has so
        // many bytes.
        let code =
            unsafe { self.acl.function::<Memset>(CALL)?(self.at.0.as_ptr(), self.bytes, 0, self.bytes) };
        self.acl.checked(CALL, code)
    }

    /// Copies its first bytes to `bytes`, which must be no longer than the memory.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> Result<(), AclError> {
        const CALL: &str = "aclrtMemcpy";
        let count = bytes.len().min(self.bytes);
        if count == 0 {
            return Ok(());
        }
        // SAFETY: as in `fill`, the other way: `bytes` is an exclusive borrow, and `count` is within both.
        let code = unsafe {
            let (to, from) = (bytes.as_mut_ptr().cast(), self.at.0.as_ptr().cast_const());
            self.acl.function::<Memcpy>(CALL)?(to, bytes.len(), from, count, DEVICE_TO_HOST)
        };
        self.acl.checked(CALL, code)
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: `aclError aclrtFree(void *)`; it came from aclrtMalloc, and is freed here only. That it could not be
        // freed stays with the runtime: a drop cannot report it.
        unsafe {
            if let Ok(free) = self.acl.function::<unsafe extern "C" fn(*mut c_void) -> c_int>("aclrtFree") {
                free(self.at.0.as_ptr());
            }
        }
    }
}

/// A queue of the device; destroyed when it is dropped.
#[derive(Debug)]
pub(crate) struct Stream<'a> {
    acl: &'a Acl,
    handle: Handle,
}

impl Stream<'_> {
    /// Starts a kernel on `blocks` blocks, with these addresses as its arguments. It may still run when this returns:
    /// [`wait`](Self::wait) for it before the memory at the addresses is freed.
    ///
    /// The addresses must be null, or memory that is as large as the kernel takes it to be.
    pub(crate) fn launch(
        &self,
        function: &Function,
        blocks: u32,
        schedule_mode: u8,
        addresses: &[u64],
    ) -> Result<(), AclError> {
        type Init = unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int;
        type Append = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, *mut *mut c_void) -> c_int;
        type Launch = unsafe extern "C" fn(
            *mut c_void,
            u32,
            *mut c_void,
            *mut LaunchConfig,
            *mut c_void,
            *mut c_void,
        ) -> c_int;
        let acl = self.acl;
        // The list belongs to the runtime and to this thread; the next one on this thread takes its place.
        let list = acl.made("aclrtKernelArgsInit", |name, made| {
            // SAFETY: `aclError aclrtKernelArgsInit(aclrtFuncHandle, aclrtArgsHandle *)`; the kernel is loaded.
            Ok(unsafe { acl.function::<Init>(name)?(function.0.0.as_ptr(), made) })
        })?;
        let list = list.0.as_ptr();
        for address in addresses {
            const CALL: &str = "aclrtKernelArgsAppend";
            let (mut address, mut item) = (*address, ptr::null_mut());
            // SAFETY: `aclError aclrtKernelArgsAppend(aclrtArgsHandle, void *param, size_t, aclrtParamHandle *)`, which
            // copies the eight bytes of the address and writes a handle that is not used.
            let code = unsafe {
                acl.function::<Append>(CALL)?(
                    list,
                    (&raw mut address).cast(),
                    size_of::<u64>(),
                    &raw mut item,
                )
            };
            acl.checked(CALL, code)?;
        }
        // SAFETY: `aclError aclrtKernelArgsFinalize(aclrtArgsHandle)`; the list is this thread's latest.
        let code = unsafe {
            acl.function::<unsafe extern "C" fn(*mut c_void) -> c_int>("aclrtKernelArgsFinalize")?(list)
        };
        acl.checked("aclrtKernelArgsFinalize", code)?;

        const CALL: &str = "aclrtLaunchKernelWithConfig";
        let value = [u32::from_ne_bytes([schedule_mode, 0, 0, 0]), 0, 0, 0];
        let mut attribute = LaunchAttribute { kind: ATTRIBUTE_SCHEDULE_MODE, value };
        let mut config = LaunchConfig { attributes: &raw mut attribute, count: 1 };
        let config = if schedule_mode == 0 { ptr::null_mut() } else { &raw mut config };
        // SAFETY: `aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle, uint32_t, aclrtStream, aclrtLaunchKernelCfg *,
        // aclrtArgsHandle, void *reserve)`: null is no configuration, and the reserved pointer is null. What the kernel
        // does to the device's memory is up to its code; the only caller gives it memory of the sizes that it was
        // compiled for, and keeps that until the stream has been waited for.
        let code = unsafe {
            let (kernel, stream) = (function.0.0.as_ptr(), self.handle.0.as_ptr());
            acl.function::<Launch>(CALL)?(kernel, blocks, stream, config, list, ptr::null_mut())
        };
        acl.checked(CALL, code)
    }

    /// Waits until all kernels of the stream have run.
    pub(crate) fn wait(&self) -> Result<(), AclError> {
        const CALL: &str = "aclrtSynchronizeStream";
        // SAFETY: `aclError aclrtSynchronizeStream(aclrtStream)`; the stream is this one.
        let code = unsafe {
            self.acl.function::<unsafe extern "C" fn(*mut c_void) -> c_int>(CALL)?(self.handle.0.as_ptr())
        };
        self.acl.checked(CALL, code)
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        // SAFETY: `aclError aclrtDestroyStream(aclrtStream)`; it came from aclrtCreateStream and is destroyed here only.
        // A drop cannot report a failure.
        unsafe {
            if let Ok(destroy) =
                self.acl.function::<unsafe extern "C" fn(*mut c_void) -> c_int>("aclrtDestroyStream")
            {
                destroy(self.handle.0.as_ptr());
            }
        }
    }
}

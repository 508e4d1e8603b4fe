//! The only `unsafe` code of this crate: calls into the device's library, `libascendcl.so`.
//!
//! A function is looked up when it is called, so if an older CANN lacks it, that is an error only if the function is needed.
//! The types are those in `acl.h` and `acl_rt.h` of CANN 8.1; they have not changed since, up to the open runtime of 2026.
//! CANN 8.1 lacks `aclrtBinaryLoadFromData`; its type is that in the documentation of CANN 8.5. In these headers `aclError` is
//! an `int`, and all handles are `void *`.
#![expect(unsafe_code, reason = "calling the vendor's C library is what this module is for")]

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::AclError;
use crate::device::acl_codes::COMPILING_STUB_MODE;

/// The oldest CANN version whose headers were used.
const CANN_8_1: &str = "8.1";
/// The maximum length of a reported error text.
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

/// A handle of the runtime. Only the runtime's functions use it.
#[derive(Debug)]
struct Handle(NonNull<c_void>);

// SAFETY: this process never dereferences a handle. The runtime's functions may be called with it on any thread whose current
// context is the one in which the handle was created, and callers set that context first.
unsafe impl Send for Handle {}
// SAFETY: as above, and the runtime synchronises concurrent calls with one handle.
unsafe impl Sync for Handle {}

/// The context of a device, in which calls are made.
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
    // Never closed: the runtime starts threads and has thread-local values, which outlive all handles.
    library: ManuallyDrop<Library>,
}

impl Acl {
    /// Loads the library at `path`; the system's loader looks up a bare name.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        opkeep_backend::check_dynamic_loading().map_err(|error| error.to_string())?;
        // SAFETY: loading runs the library's initialisers, which must be sound. The library is the vendor's runtime, which the
        // machine's administrator installed; like every program that uses the device, this one trusts it.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        // The error has no details; its source has the loader's message.
        let message = |error: libloading::Error| {
            error.source().map_or_else(|| error.to_string(), |source| source.to_string())
        };
        let library = ManuallyDrop::new(library.map_err(message)?);
        Ok(Self { path: path.to_owned(), library })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the library has a function.
    fn has(&self, name: &str) -> bool {
        // SAFETY: only the existence of the symbol is checked; its address is neither called nor read.
        unsafe { self.library.get::<*const c_void>(name.as_bytes()) }.is_ok()
    }

    /// A function of the library.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function of that name.
    unsafe fn function<F: Copy>(&self, name: &'static str) -> Result<F, AclError> {
        // SAFETY: the caller guarantees the type. The library is never closed, so the pointer stays valid.
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

    /// Returns the runtime's text for the last error on this thread.
    pub(crate) fn recent_error(&self) -> Option<String> {
        // SAFETY: the type is that of `const char *aclGetRecentErrMsg()`.
        let function =
            unsafe { self.function::<unsafe extern "C" fn() -> *const c_char>("aclGetRecentErrMsg") }.ok()?;
        // SAFETY: the function has no arguments and no preconditions.
        let text = NonNull::new(unsafe { function() }.cast_mut())?;
        // SAFETY: a pointer that is not null points to a C string, which is valid until the next call on this thread. It is
        // copied before that.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy();
        let text = text.trim();
        let cut = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= MAX_TEXT).last();
        let text = if text.len() > MAX_TEXT { &text[..cut.unwrap_or_default()] } else { text };
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(crate) fn init(&self) -> Result<(), AclError> {
        // SAFETY: the type is that of `aclError aclInit(const char *configPath)`, and null means no file.
        let code =
            unsafe { self.function::<unsafe extern "C" fn(*const c_char) -> c_int>("aclInit")?(ptr::null()) };
        self.checked("aclInit", code)
    }

    pub(crate) fn finalize(&self) -> Result<(), AclError> {
        // SAFETY: the type is that of `aclError aclFinalize()`.
        let code = unsafe { self.function::<unsafe extern "C" fn() -> c_int>("aclFinalize")?() };
        self.checked("aclFinalize", code)
    }

    /// Returns the chip's name; `None` if there is no driver or no device.
    pub(crate) fn soc_name(&self) -> Result<Option<String>, AclError> {
        // SAFETY: the type is that of `const char *aclrtGetSocName()`.
        let name = unsafe { self.function::<unsafe extern "C" fn() -> *const c_char>("aclrtGetSocName")?() };
        let name = NonNull::new(name.cast_mut());
        // SAFETY: a pointer that is not null points to a C string that the runtime keeps. It is copied here.
        Ok(name.map(|name| unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()))
    }

    pub(crate) fn device_count(&self) -> Result<u32, AclError> {
        const CALL: &str = "aclrtGetDeviceCount";
        let mut count = 0;
        // SAFETY: the type is that of `aclError aclrtGetDeviceCount(uint32_t *)`, which writes the number to `count`.
        let code = unsafe { self.function::<unsafe extern "C" fn(*mut u32) -> c_int>(CALL)?(&raw mut count) };
        self.checked(CALL, code).map(|()| count)
    }

    pub(crate) fn set_device(&self, device: i32) -> Result<(), AclError> {
        const CALL: &str = "aclrtSetDevice";
        // SAFETY: the type is that of `aclError aclrtSetDevice(int32_t)`.
        let code = unsafe { self.function::<unsafe extern "C" fn(i32) -> c_int>(CALL)?(device) };
        self.checked(CALL, code)
    }

    pub(crate) fn reset_device(&self, device: i32) -> Result<(), AclError> {
        const CALL: &str = "aclrtResetDevice";
        // SAFETY: the type is that of `aclError aclrtResetDevice(int32_t)`.
        let code = unsafe { self.function::<unsafe extern "C" fn(i32) -> c_int>(CALL)?(device) };
        self.checked(CALL, code)
    }

    /// Returns the context of this thread.
    pub(crate) fn current_context(&self) -> Result<Context, AclError> {
        let handle = self.made("aclrtGetCurrentContext", |name, made| {
            // SAFETY: the type is that of `aclError aclrtGetCurrentContext(aclrtContext *)`, which writes the handle to `made`.
            Ok(unsafe { self.function::<unsafe extern "C" fn(*mut *mut c_void) -> c_int>(name)?(made) })
        })?;
        Ok(Context(handle))
    }

    /// Makes `context` the context of this thread.
    pub(crate) fn set_current_context(&self, context: &Context) -> Result<(), AclError> {
        const CALL: &str = "aclrtSetCurrentContext";
        // SAFETY: the type is that of `aclError aclrtSetCurrentContext(aclrtContext)`, and the runtime created the context.
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
            // SAFETY: the type is that of `aclError aclrtBinaryLoadFromData(const void *, size_t, const
            // aclrtBinaryLoadOptions *, aclrtBinHandle *)`. The bytes and the options are valid during the call, and the
            // function copies what it needs later: the open runtime does, and the vendor's own callers free the bytes after the
            // call.
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
            // SAFETY: the type is that of `aclError aclrtBinaryLoadFromFile(const char *, aclrtBinaryLoadOptions *,
            // aclrtBinHandle *)`. The path and the options are valid during the call, which reads the file.
            Ok(unsafe { self.function::<Load>(name)?(path.as_ptr(), &raw mut options, made) })
        })?;
        Ok(Binary(handle))
    }

    /// Unloads a binary. None of its functions can be launched any more.
    pub(crate) fn unload(&self, binary: &Binary) -> Result<(), AclError> {
        const CALL: &str = "aclrtBinaryUnLoad";
        // SAFETY: the type is that of `aclError aclrtBinaryUnLoad(aclrtBinHandle)`, and the runtime created the handle. The only
        // caller is the `drop` of the struct that owns the binary and its functions, so the binary is unloaded once and is not
        // used later.
        let code = unsafe {
            self.function::<unsafe extern "C" fn(*mut c_void) -> c_int>(CALL)?(binary.0.0.as_ptr())
        };
        self.checked(CALL, code)
    }

    pub(crate) fn kernel(&self, binary: &Binary, kernel: &CString) -> Result<Function, AclError> {
        type Get = unsafe extern "C" fn(*mut c_void, *const c_char, *mut *mut c_void) -> c_int;
        let handle = self.made("aclrtBinaryGetFunction", |name, made| {
            // SAFETY: the type is that of `aclError aclrtBinaryGetFunction(const aclrtBinHandle, const char *,
            // aclrtFuncHandle *)`. The binary is loaded, and the name is a C string.
            Ok(unsafe { self.function::<Get>(name)?(binary.0.0.as_ptr(), kernel.as_ptr(), made) })
        })?;
        Ok(Function(handle))
    }

    /// Allocates `bytes` bytes of the device's memory.
    pub(crate) fn memory(&self, bytes: usize) -> Result<Memory<'_>, AclError> {
        // The runtime refuses to allocate 0 bytes, and a kernel takes an address even for an empty tensor.
        let bytes = bytes.max(1);
        let at = self.made("aclrtMalloc", |name, made| {
            type Malloc = unsafe extern "C" fn(*mut *mut c_void, usize, c_int) -> c_int;
            // SAFETY: the type is that of `aclError aclrtMalloc(void **, size_t, aclrtMemMallocPolicy)`, which writes the
            // address to `made`.
            Ok(unsafe { self.function::<Malloc>(name)?(made, bytes, HUGE_FIRST) })
        })?;
        Ok(Memory { acl: self, at, bytes })
    }

    pub(crate) fn stream(&self) -> Result<Stream<'_>, AclError> {
        let handle = self.made("aclrtCreateStream", |name, made| {
            // SAFETY: the type is that of `aclError aclrtCreateStream(aclrtStream *)`, which writes the handle to `made`.
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
    /// Returns the address, as a kernel takes it.
    pub(crate) fn address(&self) -> u64 {
        self.at.0.as_ptr().addr() as u64
    }

    /// Copies `bytes` to the memory, which must not be smaller.
    pub(crate) fn fill(&self, bytes: &[u8]) -> Result<(), AclError> {
        const CALL: &str = "aclrtMemcpy";
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the type is that of `aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
        // aclrtMemcpyKind)`. The function gets the size of the destination and refuses to copy more. The source is valid until
        // it returns, and this variant returns only after the copy.
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
        // SAFETY: the type is that of `aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)`, and
        // the memory has `count` bytes.
        let code =
            unsafe { self.acl.function::<Memset>(CALL)?(self.at.0.as_ptr(), self.bytes, 0, self.bytes) };
        self.acl.checked(CALL, code)
    }

    /// Copies the first bytes of the memory to `bytes`, which must not be longer than the memory.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> Result<(), AclError> {
        const CALL: &str = "aclrtMemcpy";
        let count = bytes.len().min(self.bytes);
        if count == 0 {
            return Ok(());
        }
        // SAFETY: as in `fill`, in the other direction: `bytes` is borrowed exclusively, and neither buffer is shorter than
        // `count`.
        let code = unsafe {
            let (to, from) = (bytes.as_mut_ptr().cast(), self.at.0.as_ptr().cast_const());
            self.acl.function::<Memcpy>(CALL)?(to, bytes.len(), from, count, DEVICE_TO_HOST)
        };
        self.acl.checked(CALL, code)
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: the type is that of `aclError aclrtFree(void *)`. The address is from aclrtMalloc and is freed only here. A
        // failure is ignored, since `drop` cannot report it.
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
    /// Starts a kernel on `blocks` blocks, with these addresses as its arguments. The kernel may still run when this function
    /// returns: call [`wait`](Self::wait) before the memory at the addresses is freed.
    ///
    /// Each address must be null, or that of memory that is as large as the kernel expects.
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
        // The runtime has one list of arguments for each thread; the next list on this thread replaces it.
        let list = acl.made("aclrtKernelArgsInit", |name, made| {
            // SAFETY: the type is that of `aclError aclrtKernelArgsInit(aclrtFuncHandle, aclrtArgsHandle *)`, and the kernel is
            // loaded.
            Ok(unsafe { acl.function::<Init>(name)?(function.0.0.as_ptr(), made) })
        })?;
        let list = list.0.as_ptr();
        for address in addresses {
            const CALL: &str = "aclrtKernelArgsAppend";
            let (mut address, mut item) = (*address, ptr::null_mut());
            // SAFETY: the type is that of `aclError aclrtKernelArgsAppend(aclrtArgsHandle, void *param, size_t,
            // aclrtParamHandle *)`. The function copies the eight bytes of `address` and writes a handle to `item`.
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
        // SAFETY: the type is that of `aclError aclrtKernelArgsFinalize(aclrtArgsHandle)`, and the list is the last one that
        // this thread created.
        let code = unsafe {
            acl.function::<unsafe extern "C" fn(*mut c_void) -> c_int>("aclrtKernelArgsFinalize")?(list)
        };
        acl.checked("aclrtKernelArgsFinalize", code)?;

        const CALL: &str = "aclrtLaunchKernelWithConfig";
        let value = [u32::from_ne_bytes([schedule_mode, 0, 0, 0]), 0, 0, 0];
        let mut attribute = LaunchAttribute { kind: ATTRIBUTE_SCHEDULE_MODE, value };
        let mut config = LaunchConfig { attributes: &raw mut attribute, count: 1 };
        let config = if schedule_mode == 0 { ptr::null_mut() } else { &raw mut config };
        // SAFETY: the type is that of `aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle, uint32_t, aclrtStream,
        // aclrtLaunchKernelCfg *, aclrtArgsHandle, void *reserve)`. A null configuration means none, and the reserved pointer
        // must be null. The kernel's code accesses the device's memory only. The only caller passes memory of the sizes for
        // which the kernel was compiled, and keeps it until `wait` returns.
        let code = unsafe {
            let (kernel, stream) = (function.0.0.as_ptr(), self.handle.0.as_ptr());
            acl.function::<Launch>(CALL)?(kernel, blocks, stream, config, list, ptr::null_mut())
        };
        acl.checked(CALL, code)
    }

    /// Waits until all kernels of the stream have run.
    pub(crate) fn wait(&self) -> Result<(), AclError> {
        const CALL: &str = "aclrtSynchronizeStream";
        // SAFETY: the type is that of `aclError aclrtSynchronizeStream(aclrtStream)`, and the stream exists until `drop`.
        let code = unsafe {
            self.acl.function::<unsafe extern "C" fn(*mut c_void) -> c_int>(CALL)?(self.handle.0.as_ptr())
        };
        self.acl.checked(CALL, code)
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        // SAFETY: the type is that of `aclError aclrtDestroyStream(aclrtStream)`. The stream is from aclrtCreateStream and is
        // destroyed only here. A failure is ignored, since `drop` cannot report it.
        unsafe {
            if let Ok(destroy) =
                self.acl.function::<unsafe extern "C" fn(*mut c_void) -> c_int>("aclrtDestroyStream")
            {
                destroy(self.handle.0.as_ptr());
            }
        }
    }
}

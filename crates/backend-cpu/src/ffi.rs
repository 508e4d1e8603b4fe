//! The only `unsafe` code of this crate: loading and calling kernels.
#![expect(unsafe_code, reason = "loading and calling compiled kernels is what this module is for")]

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// A kernel's function, launch ABI 1.
type KernelFn =
    unsafe extern "C" fn(*const *const c_void, *const *mut c_void, *mut c_void, std::ffi::c_ulong);

/// A loaded kernel.
pub(crate) struct KernelLibrary {
    function: KernelFn,
    // Dropped after `function` can no longer be called, the library before the file it came from: while the
    // descriptor is open its number cannot be reused, and glibc knows libraries by the name they were opened under.
    _library: Library,
    _file: OwnedFd,
}

impl KernelLibrary {
    /// Loads the shared object that the sealed file `file` holds, and finds `symbol` in it.
    pub(crate) fn open(file: OwnedFd, symbol: &str) -> Result<Self, libloading::Error> {
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: loading runs the object's initialisers. The only caller has checked that the bytes are those that the
        // `.json` describes and that they were compiled for the job at hand, and the file is sealed. Our compiler's
        // objects have no initialisers; that a user who forges both files can have any code run is what loading
        // native code means, and why a store is used only if its owner is trusted.
        let library = unsafe { Library::open(Some(&name), RTLD_NOW | RTLD_LOCAL) }?;
        // SAFETY: the validator has seen that the symbol is a function, and the launch ABI's version, which says which
        // type it has, is part of the key that the object was found under.
        let function = *unsafe { library.get::<KernelFn>(symbol.as_bytes()) }?;
        Ok(Self { function, _library: library, _file: file })
    }

    /// Runs every block once, on up to `threads` threads.
    ///
    /// The buffers must be those that the kernel was compiled for: as many, as long and as aligned as the descriptions
    /// of its tensors say. The only caller checks that right before.
    pub(crate) fn launch(
        &self,
        blocks: u32,
        threads: NonZeroUsize,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
    ) {
        let inputs = Pointers(inputs.iter().map(|buffer| buffer.as_ptr().cast_mut().cast()).collect());
        let outputs = Pointers(outputs.iter_mut().map(|buffer| buffer.as_mut_ptr().cast()).collect());
        let next = AtomicU32::new(0);
        let work = || {
            loop {
                let block = next.fetch_add(1, Ordering::Relaxed);
                if block >= blocks {
                    break;
                }
                self.run(&inputs, &outputs, block);
            }
        };
        let helpers = threads.get().min(blocks as usize).saturating_sub(1);
        std::thread::scope(|scope| {
            for _ in 0..helpers {
                // If no further thread can be started, the existing ones do the work.
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
    }

    fn run(&self, inputs: &Pointers, outputs: &Pointers, block: u32) {
        // SAFETY: the pointers come from borrows that outlive the launch, and the buffers are those that the kernel was
        // compiled for (see `launch`). Kernels write only to outputs, which are exclusive borrows, and blocks write
        // disjoint parts of them; each block is handed out once. Null is a valid workspace: the loader has checked that
        // the kernel's `.json` asks for none.
        unsafe {
            (self.function)(
                inputs.0.as_ptr().cast::<*const c_void>(),
                outputs.0.as_ptr(),
                std::ptr::null_mut(),
                block.into(),
            );
        }
    }
}

/// Buffer addresses, to be shared between the threads of one launch.
struct Pointers(Vec<*mut c_void>);

// SAFETY: these are addresses; who may read or write behind them is settled by `KernelLibrary::launch`.
unsafe impl Sync for Pointers {}

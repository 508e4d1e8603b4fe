//! The directories that frameworks read their kernels from, kept equal to what was built.
//!
//! MindSpore and related frameworks look for compiled operators in one directory for each rank. A [`View`] is that
//! directory. [`View::materialise`] writes kernels there, restores files that are missing or damaged, and leaves the
//! others as they are:
//!
//! ```text
//! <base>/                          MS_COMPILER_CACHE_PATH; if unset, the working directory
//!   rank_<RANK_ID>/
//!     kernel_meta/
//!       <stem>.o                   the kernel object
//!       <stem>.json                how to launch it, with the SHA-256 of the .o
//!       <stem>.info                what was compiled, for this rank
//!       .opkeep.lock               flock: one writer at a time; readers need none
//!       .opkeep-manifest           what the view wrote, see below
//!       .opkeep-tmp-<pid>-<n>      a file being written
//!       .opkeep-old-<pid>-<n>-...  a file being replaced, until its content shows that the view wrote it
//! ```
//!
//! # Guarantees
//!
//! - **A `.json` is never beside an unfinished `.o`**, whenever a process is killed. To replace a kernel, the view removes
//!   its `.json`, renames a complete `.o` and `.info` into place, and the new `.json` last. Frameworks treat a kernel
//!   without a `.json` as missing.
//! - **A foreign kernel is never replaced.** A file is written only where there is nothing, where the existing file is
//!   ours, or where it is structurally damaged and the kernel is for the chip that its descriptor names. Ours is what the
//!   manifest lists by its digest; where the manifest was lost, what is in the caller's [store](View::replace_adopting).
//!   The manifest is written before the files, with the digests of the old and the new ones, so that this holds after a
//!   kill at any instant. All else is left, and the [report](ViewReport::left) says why. One module decides, and
//!   one writes.
//! - **Foreign files that are replaced are kept**: damaged ones, and with [`View::with_replace`] any, are handed to
//!   [`ForeignFiles::quarantine`], from where they can be restored. So are *adopted* kernels: those that were right
//!   before the view wrote them.
//! - **Nothing that another program writes meanwhile is overwritten.** Files get their names only where those are free. A
//!   file that is to go is renamed first, and removed only if its digest is that of what the view wrote.
//! - **Intact means equal to what was given**, not consistent in itself. The one exception is `build_result` in the
//!   `.json`, which MindSpore adds by rewriting the file; a `.json` with it is kept as it is.
//! - **An intact file costs one stat.** The manifest records which file was read and found intact. A file whose
//!   device, inode, size and times are unchanged is not read again, and its bytes are not asked for. A file that
//!   changed within two seconds of being recorded is not trusted, because its times could hide another change.
//! - **Only our own files are removed**: kernels in the manifest whose slots (see [`KernelFiles::slot`]) all went to
//!   other kernels, older than 30 minutes, unchanged, and not adopted. Nothing else is touched, and no link is followed. A
//!   kernel for debugging takes neither the slot nor the name of one that is not.
//! - **Files are as readable as frameworks make them**: 0640, directories 0750, less the umask.
//!
//! The price of the first guarantee: while a kernel is being replaced, a reader may find it missing.
//!
//! A view does not know where kernels come from, whether they are valid, or what a network is. It never reads the
//! environment: the caller names base and rank. It never reads or writes the store: the caller looks up what the view must
//! know of it ([`StoredKernels`]). What it must know about foreign files it asks [`ForeignFiles`]; by default it leaves
//! them all.
//!
//! ```
//! use opkeep_digest::Digest;
//! use opkeep_kernel_meta::{FileContent, KernelFiles, View};
//!
//! let base = tempfile::tempdir()?;
//! let view = View::open(base.path(), "0")?;
//! assert!(view.dir().ends_with("rank_0/kernel_meta"));
//!
//! let object = b"the kernel";
//! let json = format!(r#"{{"kernelName": "square_1__kernel0", "sha256": "{}"}}"#, Digest::of(object));
//! let kernel = KernelFiles {
//!     slot: "Default/Square-op1",
//!     stem: "square_1",
//!     object: FileContent::of(object),
//!     json: FileContent::of(json.as_bytes()),
//!     info: FileContent::of(b"{}"),
//!     for_chip: true,
//!     debug: false,
//! };
//! assert_eq!(view.materialise(&[kernel])?.written, 1);
//! assert_eq!(view.materialise(&[kernel])?.intact, 1);
//! assert!(view.dir().join("square_1.json").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checked;
mod chip;
mod compare;
mod content;
mod decide;
pub mod displace;
mod error;
mod file_kind;
mod foreign;
mod foreign_files;
mod left;
pub mod manifest;
mod materialise;
mod occupant;
mod own_name;
pub mod publish;
mod rename;
mod report;
mod retire;
mod run_id;
mod stored;
mod view;
pub mod view_dir;

pub use chip::is_same_chip;
pub use content::{FileContent, KernelFiles, RetiredKernel};
pub use displace::STAYS_DISPLACED;
pub use error::{IoCause, ViewError};
pub use file_kind::KernelFileKind;
pub use foreign_files::{ForeignFiles, LeaveForeign, QuarantineOutcome, Replaced};
pub use left::{DirectoryRisk, ForeignKernel, InUse, LeftKernel, LeftReason};
pub use own_name::{MAX_DEPTH, QUARANTINE, is_quarantine};
pub use rename::rename_new;
pub use report::ViewReport;
pub use run_id::RunId;
pub use stored::{StoredKernel, StoredKernels};
pub use view::{DEFAULT_LOCK_TIMEOUT, View};

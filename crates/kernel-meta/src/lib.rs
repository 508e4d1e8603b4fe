//! The folders that frameworks read their kernels from, kept equal to what was built.
//!
//! MindSpore and its kin look for compiled operators in a folder of their own for each rank. A [`View`] is that
//! folder. [`View::materialise`] puts kernels there, restores the files that are missing or damaged, and leaves the
//! others alone:
//!
//! ```text
//! <base>/                          MS_COMPILER_CACHE_PATH, else the working folder
//!   rank_<RANK_ID>/
//!     kernel_meta/
//!       <stem>.o                   the kernel object
//!       <stem>.json                how to launch it, with the SHA-256 of the .o
//!       <stem>.info                what was compiled, for this rank
//!       .opkeep.lock               flock: one writer at a time; readers need none
//!       .opkeep-manifest           what we wrote, see below
//!       .opkeep-tmp-<pid>-<n>      a file being written
//!       .opkeep-old-<pid>-<n>-...  a file being replaced, until its content shows that it is ours
//! ```
//!
//! # What holds
//!
//! - **A `.json` is never beside an unfinished `.o`**, whenever a process is killed. A kernel is replaced by removing
//!   its `.json`, renaming a complete `.o` and `.info` into place, and the new `.json` last. Frameworks take a kernel
//!   without a `.json` for one that is not there.
//! - **A kernel that is not ours is never replaced.** A file is written only where there is nothing, where what is there is
//!   ours, or where what is there is structurally damaged and the kernel is for the chip that its descriptor names. Ours is
//!   what the manifest lists by its digest, not what looks like ours, and where that was lost what is in the caller's
//!   [store](View::replace_adopting); the manifest is written before the files, with the
//!   digests of the old and the new, so that this holds after a kill at any instant. All else is left, and the
//!   [report](ViewReport::left) says what it is: valid kernels, whole objects of other chips, what may be in progress, links,
//!   and descriptors (`.info`) that can be read. One function decides, and nothing else writes.
//! - **What is replaced and not ours is kept**: damage, and with [`View::with_replace`] anything, goes to
//!   [`quarantine`], and undoing that removes our kernel and restores what was there. So are kernels *adopted*: those that
//!   were right before we wrote them.
//! - **Nothing is written over what came meanwhile.** Files get their names only where those are free. What is to go is
//!   renamed first, and removed only if its digest is that of what we wrote.
//! - **Intact means equal to what was given**, not consistent in itself. The one liberty is `build_result` in the `.json`,
//!   which MindSpore adds by rewriting the file; a `.json` that carries it is kept as it is.
//! - **An intact file costs one stat.** The manifest records which file was read and found intact. A file whose
//!   device, inode, size and times are still those is not read again, and its bytes are not asked for. A file that
//!   changed within two seconds of being recorded is not trusted, because its times could hide another change.
//! - **Only our own files are removed**: kernels in the manifest whose slots (see [`KernelFiles::slot`]) have all
//!   gone to other kernels, older than 30 minutes, still what we wrote, and not adopted. Nothing else is touched, and no
//!   link is followed. A kernel for debugging takes no slot from one that is not, and no place of it.
//! - **Files are as readable as frameworks make them**: 0640, folders 0750, less what the umask takes.
//!
//! The price of the first promise: while a kernel is being replaced, a reader may find it missing.
//!
//! A view knows the folder and the order of writing. It does not know where kernels come from, whether they are valid, or
//! what a network is. It never reads the environment: the caller says which base and which rank.
//!
//! Caches that are there already, MindSpore's, AKG's and CANN's own, are what [`survey`] looks into: which kernels are
//! whole, which are damaged or left over, and what the framework would make of each. [`quarantine`] takes away what is
//! wrong there, so that it can be put back; [`fill`] gives ranks what other ranks have. [`kernel_cache`]
//! makes room in CANN's.
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

//! Writes built kernels to the directories from which frameworks read them.
//!
//! MindSpore and related frameworks look for compiled operators in one directory for each rank. A [`View`] is such a
//! directory. [`View::materialise`] writes kernels to it, repairs kernels with missing or damaged files, and leaves all
//! other files as they are:
//!
//! ```text
//! <base>/                          MS_COMPILER_CACHE_PATH; if unset, the working directory
//!   rank_<RANK_ID>/
//!     kernel_meta/
//!       <stem>.o                   the kernel object
//!       <stem>.json                how to launch it, with the SHA-256 of the .o
//!       <stem>.info                the descriptor: the compiled job, for this rank
//!       .opkeep.lock               flock: one writer at a time; readers need none
//!       .opkeep-manifest           the list of the files that the view wrote
//!       .opkeep-tmp-<pid>-<n>      a file being written
//!       .opkeep-old-<pid>-<n>-...  a file being replaced, until its content shows that the view wrote it
//!       .opkeep-old-....outdated   a file of an outdated kernel of ours that another program wrote or extended, until it
//!                                  can be quarantined
//! ```
//!
//! # Guarantees
//!
//! - **No `.json` is ever beside an unfinished `.o`**, even if a process is killed. To replace a kernel, the view
//!   removes its `.json`, renames a complete `.o` and `.info` into place, and the new `.json` last. Frameworks treat a
//!   kernel without a `.json` as missing.
//! - **A valid foreign kernel is never replaced**, unless [`View::with_replace`] is set. An existing file is replaced
//!   only if it is ours, or if it is structurally damaged and the new kernel is for the chip that its descriptor names.
//!   A file is ours if the manifest lists its digest; after the loss of the manifest, a kernel is ours if the caller's
//!   [store](View::replace_adopting) has it. The manifest is written before the files, with the digests of the old and
//!   the new ones, so that this holds after a kill at any instant. All other files stay, and the
//!   [report](ViewReport::left) has the reasons.
//! - **Replaced foreign files are kept.** Damaged ones, and any with [`View::with_replace`], go to
//!   [`ForeignFiles::quarantine`], from where they can be restored. *Adopted* files go there, too: another program
//!   wrote them, with the content that the view was to write.
//! - **No file that another program writes meanwhile is overwritten.** A new file gets its name only if the name is
//!   free. A file that is to be removed is renamed first, and removed only if its digest is that of a file that the
//!   view wrote.
//! - **A file is intact if it equals the given content.** A consistent kernel with other content is not intact. The one
//!   exception is `build_result` in the `.json`, which MindSpore adds by rewriting the file: such a `.json` is kept.
//! - **An intact file costs one stat.** The manifest records the state of each file that was read and found intact. A
//!   file with the same device, inode, size and times is not read again, and its content is not requested from the
//!   caller. The state of a file that changed within the last two seconds is not recorded, because another change might
//!   leave the same times.
//! - **Only our own files are removed**: those of kernels in the manifest that are unchanged, not adopted, older than
//!   30 minutes, and whose slots (see [`KernelFiles::slot`]) were all given to other kernels. No link is followed. A
//!   kernel that was compiled for debugging takes neither a slot nor a name from a kernel that was not.
//! - **No outdated kernel of ours stays findable after a call for its name**, whether the call succeeds or fails: the disk
//!   may be full, the quarantine may refuse, the `.info` may be a link. A kernel is outdated if the call gives another
//!   kernel for its name, or withdraws the name. Files that only the view wrote are removed. Files that another program
//!   wrote or extended stay in the directory under names that no framework reads; the next calls move them to
//!   quarantine, and keep one of equal files. The limits: if a file cannot lose its name, the error is
//!   [`ViewError::Outdated`]; if the directory cannot be opened and locked, or the manifest cannot be read, nothing is
//!   changed, and the error names the directory, the lock or the manifest. A kernel that neither the manifest nor the
//!   caller's store has is foreign, and is never outdated. So is one whose description or object another program
//!   replaced.
//! - **A descriptor that cannot be replaced keeps no kernel from its name.** No framework reads the `.info`. A link, a
//!   directory, or an unreadable or valid foreign file in its place stays.
//! - **Files have the modes that frameworks use**: 0640, directories 0750, less the umask.
//!
//! The cost of the first guarantee: while a kernel is being replaced, a reader may find it missing.
//!
//! A view does not know the origin of kernels, whether they are valid, or which network they belong to. A view never
//! reads the environment: the caller passes the base and the rank. A view never reads or writes a store: the caller
//! provides the look-up of kernels ([`StoredKernels`]). Foreign files are judged by [`ForeignFiles`]; by default, all
//! of them are left.
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
mod outdated;
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

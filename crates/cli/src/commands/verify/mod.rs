//! `opkeep verify`: checks stores, caches of frameworks, and kernels in files.

pub(crate) mod caches;
pub(crate) mod findings;
mod kernels;
pub(crate) mod store;
pub(crate) mod triton;

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Context;
use opkeep_artifact::Expectations;
use opkeep_cann_meta::known_target;
use opkeep_framework_cache::Links;
use opkeep_framework_cache::scan::{CacheDirs, find_through_links};
use opkeep_framework_cache::triton::{TritonDir, take as take_triton};
use opkeep_fs::Fs;
use opkeep_kernel_entry::EntryFile;
use opkeep_store::{MAX_ENTRY_BYTES, is_store};

use crate::flags::store::StoreArgs;
use crate::input::pairs::{CheckOutcome, CheckedKernel, check_kernels, is_kernel_file};
use crate::input::store::{StorePath, threads};
use crate::input::{self, InputFiles, real_path};
use crate::ui::config::Verbosity;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::quotable;
use caches::note_links;
use kernels::VerifyTally;

/// The details of verify.
const DETAILS: &str = "\
Each kernel is valid or refused. Findings have codes (OPV001, ...): errors refuse a kernel, warnings
and notes do not. A .json is checked with the object of its name or of its binFileName (.o, .so,
lib*.so), and a .json that only lists parts with its parts.

In a store, every entry is read in full: all bytes, the kernel, and whether it is the kernel of its
key. Builds may use the store meanwhile. Other files in the store are reported. `opkeep repair`
repairs a store.

In a directory, all directories with kernels are checked: stores, the caches that MindSpore, AKG and
CANN write, CANN's work directories, operator packages, their build trees, and pairs elsewhere.
Links to directories are followed, each directory is checked once, and a link to a directory above
the named one is reported. Pseudo file systems (/proc, /sys) are skipped.

A kernel in a cache is intact, damaged, an orphan, for another chip, or in progress: written in the
last half hour, open or locked. It is for another chip if its object, by its machine and e_flags, is
not for the chip that the descriptor (.info) beside it or the directory's name states; without
these, if it differs from the other kernels of the directory. The report states what the framework
does with it, and which kernels a rank lacks that other ranks have. `opkeep repair DIR` repairs
damaged kernels and orphans.

In Triton's directory (TRITON_CACHE_DIR), a kernel is intact if its list and its metadata can be
read, all its files are there and the object has the kernel; and if the store has an entry of its
key, if all files have the bytes of it. Bytes of kernels that are not stored cannot be compared.

Exit code 1: a kernel was refused, a store or cache has problems, or a rank lacks kernels; 2: a file
could not be checked, a path has no kernel, or --op_compiler_cache_dir names no store.

Examples:
  opkeep verify
    checks the store that builds use
  opkeep verify rank_0/kernel_meta
    checks the kernels of a directory
  opkeep verify /data/training
    checks all caches below a directory, and compares the ranks";

/// Check the store, caches of frameworks, or kernels in files
///
/// Changes nothing, and may run beside builds.
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// Kernel files, stores, caches of frameworks, or directories of them
    ///
    /// Kernel descriptions (.json), objects (.o, .so) or store entries (.kern); a store or the directory of one of
    /// its targets; caches of frameworks (kernel_meta, akg_kernel_meta, kernel_cache), Triton's directory, or
    /// directories above them.
    ///
    /// [default: the store that builds use]
    #[arg(value_name = "PATH", conflicts_with = "cache_dir")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The number of entries that are read at once [default: one per processor]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// The target of the kernels: cpu, aicpu, or a chip such as Ascend910B1
    ///
    /// cpu is this host.
    ///
    /// [default: the target that the object states, or any; in a store, the one that the directory is named after]
    #[arg(long, visible_alias = "soc_version", value_name = "TARGET")]
    pub(crate) target: Option<String>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let expect = args.target.as_deref().map(target_expectations).transpose()?;
    let shows_notes = output.verbosity() > Verbosity::Normal;
    let mut tally = VerifyTally { shows_notes, ..VerifyTally::default() };
    let mut paths = Vec::new();
    let mut stores = StorePaths::default();
    let (cancel, jobs) = (output.cancel_on_signal(), threads(args.jobs));
    for path in &args.files {
        match (StorePath::of(path), input::can_read(path)) {
            (Some(store), _) => {
                // A framework's caches may be beside a store, if a project uses one directory for both.
                stores.add(store);
                if expect.is_none()
                    && is_store(path)
                    && let Ok(mut found) = find_through_links(path)
                {
                    tally.add_triton(take_triton(&mut found), &args.store, &cancel, output);
                    stores.add_found(&found);
                    if !found.caches.is_empty() {
                        tally.caches.add(found, jobs, &cancel, output);
                    }
                }
            }
            (None, Err(error)) => tally.fail(path, &error, output),
            (None, Ok(())) => match expect.is_none().then(|| find_through_links(path).ok()).flatten() {
                Some(mut found) => {
                    let triton = take_triton(&mut found);
                    let skip = |path: PathBuf| {
                        tally.skipped_below.add(|| format!("`{}` is no kernel's", path.display()))
                    };
                    let files = found.take_kernel_files(skip);
                    let has_store = stores.add_found(&found) || !triton.is_empty();
                    tally.add_triton(triton, &args.store, &cancel, output);
                    let unreadable = tally.caches.unreadable();
                    let kernels = tally.caches.add(found, jobs, &cancel, output);
                    let is_complete = tally.caches.unreadable() == unreadable;
                    if kernels == 0 && files.is_empty() && !has_store && is_complete && !cancel.is_cancelled()
                    {
                        let nothing = anyhow::anyhow!("there is no kernel file in `{}`", quotable(path));
                        tally.fail(path, &nothing, output);
                    }
                    paths.extend(files);
                }
                None => match triton_dir_of(path).filter(|_| expect.is_none()) {
                    Some(dir) => tally.add_triton(vec![dir], &args.store, &cancel, output),
                    None => paths.push(path.clone()),
                },
            },
        }
    }
    if args.files.is_empty() {
        stores.add(StorePath::default_store(&args.store)?);
    }
    let StorePaths(stores) = stores;
    anyhow::ensure!(
        stores.is_empty() || expect.is_none(),
        "--target is for kernels in files: those of a store are for the target that their directory is named after"
    );
    for store in &stores {
        if let Err(error) = tally.stores.add(store, &args.store, jobs, &cancel, output) {
            tally.fail(&store.root, &error, output);
        }
    }
    let InputFiles { mut files, unreadable, not_followed, .. } =
        input::files(&paths, "kernel", Links::Follow, is_kernel_file);
    note_links(&not_followed, output);
    unreadable.iter().for_each(|(path, error)| tally.fail(path, error, output));
    // A pattern such as `*` names both files of a pair. The `.json` comes first, since it names the objects.
    opkeep_order::by_key(&mut files, |path| path.extension().is_none_or(|extension| extension != "json"));
    let (mut seen, mut objects) = (HashSet::new(), HashSet::new());
    for path in &files {
        if cancel.is_cancelled() {
            tally.stores.cancelled = true;
            break;
        }
        if objects.contains(&real_file(path)) {
            continue;
        }
        if path.extension().is_some_and(|extension| extension == "kern") {
            match input::read_file(path, MAX_ENTRY_BYTES) {
                Ok(content) => {
                    tally.add_entry(path, &EntryFile::judge(path, content, expect.as_ref()));
                }
                Err(error) => tally.fail(path, &error, output),
            }
            continue;
        }
        match check_kernels(path, expect.as_ref()) {
            Ok(CheckOutcome::Kernels(kernels)) => {
                let new = |kernel: &CheckedKernel| {
                    seen.insert((real_file(&kernel.file), kernel.object.as_deref().map(real_file)))
                };
                for kernel in kernels.into_iter().filter(new) {
                    objects.extend(kernel.object.as_deref().map(real_file));
                    tally.add(&kernel);
                }
            }
            Ok(CheckOutcome::Other(why)) => tally.skipped_arguments.add(|| why),
            Err(error) => tally.fail(path, &error, output),
        }
    }
    tally.print_report(output)
}

/// Returns the directory of the key in which `path` is a file of one of Triton's kernels.
fn triton_dir_of(path: &Path) -> Option<TritonDir> {
    let extension = path.extension()?.to_str()?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_triton = ["json", "cubin", "hsaco"].contains(&extension);
    is_triton.then(|| TritonDir::at(parent).ok().flatten())?.filter(|dir| dir.path == parent)
}

/// The stores to check, each once.
#[derive(Default)]
struct StorePaths(Vec<StorePath>);

impl StorePaths {
    fn add(&mut self, store: StorePath) {
        let root = real_path(&store.root);
        let is_known = |known: &StorePath| known.target == store.target && real_path(&known.root) == root;
        if !self.0.iter().any(is_known) {
            self.0.push(store);
        }
    }

    /// Adds the stores that a search found. Returns whether there is one.
    fn add_found(&mut self, found: &CacheDirs) -> bool {
        found.stores.iter().for_each(|root| self.add(StorePath { root: root.clone(), target: None }));
        !found.stores.is_empty()
    }
}

/// Returns the path of a file with the links to its directory resolved, so that each file has one path.
fn real_file(path: &Path) -> PathBuf {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = Fs::new().real_path(directory.unwrap_or(Path::new(".")));
    directory
        .map_or_else(|_| path.to_owned(), |directory| directory.join(path.file_name().unwrap_or_default()))
}

fn target_expectations(target: &str) -> anyhow::Result<Expectations> {
    known_target(target).with_context(|| {
        format!("the target `{target}` is not known: expected cpu, aicpu, or a chip such as Ascend910B1")
    })
}

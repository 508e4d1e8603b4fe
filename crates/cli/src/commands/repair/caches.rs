//! The repair of caches of frameworks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use opkeep_framework_cache::fill::{DeviceMap, FillOptions, FillReport, ScannedCache, fill};
use opkeep_framework_cache::quarantine::{QuarantineOptions, RunId, quarantine};
use opkeep_framework_cache::scan::{CacheDir, compare, find};
use opkeep_framework_cache::triton::{TritonDir, take as take_triton};
use opkeep_fs::CancelToken;

use super::args::Args;
use super::caches_report::{self, CachesOutput};
use super::loose;
use super::outcome::{Repaired, RepairedCache, Repairs, Unfilled, UnreadableDirs};
use super::triton::{self, RepairedTriton};
use crate::commands::verify::caches::scan_with_progress;
use crate::input;
use crate::input::store::{self, threads};
use crate::ui::output::{ExitStatus, Output};
use crate::ui::progress::Progress;
use crate::ui::text::quotable;

/// The maximum number of bytes of a file with a device map, which has a few lines.
const MAX_MAP: u64 = 1 << 20;

pub(crate) fn repair(args: &Args, output: &Output) -> anyhow::Result<Repaired<CachesOutput>> {
    let devices = args.device_map.as_deref().map(devices).transpose()?.unwrap_or_default();
    let Found { caches, triton, loose, unreadable_dirs } = find_caches(&args.paths)?;
    let (cancel, progress) = (output.cancel_on_signal(), output.progress());
    let mut repairs = Repairs {
        paths: args.paths.clone(),
        caches: Vec::new(),
        triton: Vec::new(),
        unreadable_dirs,
        filled: None,
        ranks: Vec::new(),
        ranks_before_fill: Vec::new(),
        dry_run: args.dry_run,
    };
    let run = RunId::now();
    for cache in &caches {
        if cancel.is_cancelled() {
            break;
        }
        match scan_with_progress(cache, threads(args.jobs), &progress, &cancel) {
            Ok(scan) => {
                let is_cancelled = || cancel.is_cancelled();
                let mut options = QuarantineOptions::new(&run);
                (options.force, options.dry_run) = (args.force, args.dry_run);
                options.is_cancelled = &is_cancelled;
                // A partial scan would lead to a partial repair.
                if !scan.cancelled {
                    let quarantine = quarantine(&scan, &options);
                    repairs.caches.push(RepairedCache { scan, quarantine });
                }
            }
            Err(error) => repairs.unreadable_dirs.push((cache.path.clone(), error.to_string())),
        }
    }
    if !cancel.is_cancelled() {
        repairs.triton = triton::repair_dirs(triton, args, &run, &cancel, output);
    }
    repairs.unreadable_dirs.extend(loose::problems(&loose, &cancel));
    if args.fill && !cancel.is_cancelled() {
        repairs.ranks_before_fill = compare(repairs.caches.iter().map(|repaired| &repaired.scan));
        repairs.filled = Some(fill_ranks(&repairs.caches, &run, &devices, args.dry_run, &progress, &cancel));
    } else {
        repairs.ranks = compare(repairs.caches.iter().map(|repaired| &repaired.scan));
    }
    progress.done();
    Ok(repaired(&repairs, &cancel))
}

/// Returns the device map in the argument, or in the file that the argument names.
fn devices(given: &str) -> anyhow::Result<DeviceMap> {
    if given.contains('=') {
        return DeviceMap::parse(given).context("--device-map");
    }
    let text = input::read_file(Path::new(given), MAX_MAP)?;
    DeviceMap::parse(&String::from_utf8_lossy(&text)).with_context(|| format!("`{given}`"))
}

/// The caches at and below paths.
struct Found {
    caches: Vec<CacheDir>,
    triton: Vec<TritonDir>,
    /// The files of kernels that are in no cache.
    loose: Vec<PathBuf>,
    unreadable_dirs: UnreadableDirs,
}

/// Returns all caches at and below `paths`, each once, and the unreadable directories.
fn find_caches(paths: &[PathBuf]) -> anyhow::Result<Found> {
    let (mut caches, mut triton, mut unreadable_dirs) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut loose = Vec::new();
    for path in paths {
        // A store's directory may only be the single path: the caches beside the store are then found in it, too.
        if paths.len() > 1 && store::StorePath::of(path).is_some() {
            bail!("`{}` is a store: give it as the only path", quotable(path));
        }
        let found = find(path).with_context(|| format!("cannot read `{}`", quotable(path)));
        let mut found = match found {
            Ok(found) => found,
            // For a file, the error states the type of the file.
            Err(error) => {
                input::can_read(path)?;
                return Err(error.context(no_cache_text(path)));
            }
        };
        triton::add_dirs(path, take_triton(&mut found), &mut triton);
        loose.extend(found.take_kernel_files(|_| ()));
        unreadable_dirs
            .extend(found.unreadable_dirs.into_iter().map(|(path, error)| (path, error.to_string())));
        unreadable_dirs.extend(found.too_deep.into_iter().map(|path| (path, "nested too deep".to_owned())));
        let link = "it is a link, and repair follows none: name it on the command line";
        unreadable_dirs.extend(found.links.into_iter().map(|path| (path, link.to_owned())));
        for cache in found.caches {
            caches.entry(input::real_path(&cache.path)).or_insert(cache);
        }
    }
    if let (true, true, true, Some(path)) =
        (caches.is_empty(), triton.is_empty(), unreadable_dirs.is_empty(), paths.first())
    {
        bail!("{}", no_cache_text(path));
    }
    Ok(Found { caches: caches.into_values().collect(), triton, loose, unreadable_dirs })
}

fn no_cache_text(path: &Path) -> String {
    format!(
        "`{}` is no store, and there is no cache in it: expected a directory with v1/ in it, or the directory of one target \
         there, kernel_meta, akg_kernel_meta or kernel_cache/<soc>, Triton's directory, or a directory above one; `opkeep build` builds \
         kernels that are missing",
        path.display()
    )
}

fn fill_ranks<'a>(
    caches: &'a [RepairedCache],
    run: &RunId,
    devices: &DeviceMap,
    dry_run: bool,
    progress: &Progress,
    cancel: &CancelToken,
) -> FillReport {
    progress.start("filling ranks");
    let of = |repaired: &'a RepairedCache| {
        let RepairedCache { scan, quarantine } = repaired;
        ScannedCache { scan, moved: quarantine.as_ref().map_or(&[][..], |quarantine| &quarantine.moved) }
    };
    let caches: Vec<ScannedCache<'_>> = caches.iter().map(of).collect();
    let (update, is_cancelled) = (|done, total| progress.update(done, total), || cancel.is_cancelled());
    let mut options = FillOptions::new(run, devices);
    (options.dry_run, options.progress, options.is_cancelled) = (dry_run, &update, &is_cancelled);
    fill(&caches, &options)
}

fn repaired(repairs: &Repairs, cancel: &CancelToken) -> Repaired<CachesOutput> {
    let left: usize = repairs.caches.iter().map(RepairedCache::left).sum::<usize>()
        + repairs.triton.iter().map(RepairedTriton::left).sum::<usize>()
        + repairs.unreadable_dirs.len();
    let unfilled = repairs.filled.as_ref().map(|filled| Unfilled::of(&filled.unfilled)).unwrap_or_default();
    let refused = unfilled.kernels + unfilled.ranks;
    let mut text = caches_report::text(repairs);
    match (left, refused, repairs.dry_run) {
        _ if cancel.is_cancelled() => text.line("interrupted; run it again to continue"),
        (0, 0, false) => text.line("no problem is left"),
        (0, 0, true) => text.line("no problem would be left; nothing was changed"),
        (0, _, _) => text.line(format_args!("{unfilled} could not be filled")),
        (left, _, _) => text.line(format_args!("problems are left: {left}")),
    }
    let json = CachesOutput::new(repairs, left, refused, cancel.is_cancelled());
    let exit_status = match () {
        () if cancel.is_cancelled() => ExitStatus::Interrupted,
        () if left + refused > 0 => ExitStatus::Problems,
        () => ExitStatus::Success,
    };
    Repaired { text, json, exit_status }
}

//! The store, the file system that it is on, and what that file system does.

use std::io;
use std::path::{Path, PathBuf};

use opkeep_fs::{Dir, Fs, TempDir, TempFile, TryLock, Volume};
use opkeep_store::{Access, Store, StoreError};

use super::row::Row;
use crate::flags::compile::CompileArgs;
use crate::setup;
use crate::ui::hints::{OTHER_STORE, hints};
use crate::ui::text::{bytes, counted, quoted_path};

/// Less free space is worth a note: builds store kernels as long as there is some.
const LITTLE: u64 = 256 << 20;

pub(super) fn rows(common: &CompileArgs) -> Vec<Row> {
    let mode = common.cache_mode();
    if !mode.reads() && !mode.writes() {
        return vec![Row::note("store", format!("not used: its mode is {mode}"))];
    }
    let must_be_there = mode.requires_store();
    let Some(root) = common.store.dir() else {
        let row = Row::problem("store", "no directory for it is known, so nothing is stored");
        return vec![row.help("`export OPKEEP_CACHE_DIR=DIR`, or set HOME").prevents_builds(must_be_there)];
    };
    let config = setup::store_at(root.clone(), &common.store).with_access(Access::ReadOnly);
    let mut rows = Vec::new();
    let probed = match Store::open(config) {
        Err(StoreError::NoStore { .. }) => {
            rows.push(missing(&root, must_be_there));
            existing(&root)
        }
        Err(error) => {
            return vec![Row::error("store", &error.into()).prevents_builds(must_be_there)];
        }
        Ok(store) if store.exists().is_ok_and(|exists| !exists) => {
            rows.push(missing(store.root(), must_be_there));
            existing(store.root())
        }
        Ok(store) => {
            let names = store.targets().unwrap_or_default();
            rows.push(Row::ok(
                "store",
                format!("`{}`, {}", store.root().display(), counted(names.len(), "target")),
            ));
            let warnings = store.limit_warnings().iter().map(ToString::to_string);
            let foreign = store.foreign().unwrap_or_default().into_iter();
            let foreign = foreign.map(|path| StoreError::Foreign { path }.to_string());
            rows.extend(warnings.chain(foreign).map(|warning| Row::note("store", warning)));
            if mode.writes() {
                let check = |name: &String| store.target(name)?.check_directories();
                let errors = names.iter().filter_map(|name| Some((name, check(name).err()?)));
                rows.extend(errors.map(|(name, error)| not_kept(name, error, common)));
            }
            Some(store.root().to_owned())
        }
    };
    match probed {
        Some(dir) => rows.extend(file_system(&dir, mode.writes())),
        None => {
            rows.push(Row::problem("file system", "no directory above the store exists").help(OTHER_STORE))
        }
    }
    rows
}

/// Returns the row of a target whose kernels a build cannot store: a problem unless the user asks about another target.
fn not_kept(name: &str, error: StoreError, common: &CompileArgs) -> Row {
    let is_asked = !common.chooses_target() || is_store_of(name, common.target());
    let finding = format!("kernels for {name} are built and not kept: {error}");
    let mut help = hints(&error.into());
    if help.is_empty() {
        help.push(OTHER_STORE.to_owned());
    }
    let row = if is_asked { Row::problem("store", finding) } else { Row::note("store", finding) };
    help.into_iter().fold(row, Row::help)
}

/// Whether the store keeps the kernels for `target` under `name`, which for CPUs has the architecture, too: `cpu-x86_64` for `cpu`.
fn is_store_of(name: &str, target: &str) -> bool {
    let (name, target) = (name.to_ascii_lowercase(), target.to_ascii_lowercase());
    name.strip_prefix(&target).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn missing(root: &Path, must_be_there: bool) -> Row {
    let finding = format!("`{}` does not exist yet", root.display());
    match must_be_there {
        false => Row::note("store", finding).help("the first build creates it"),
        true => Row::problem("store", format!("{finding}, and the mode requires it"))
            .help("a build with --op_compiler_cache_mode enable creates it")
            .prevents_builds(true),
    }
}

/// Returns the nearest directory at or above `path` that exists.
fn existing(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find(|path| Fs::new().is_dir(path)).map(Path::to_owned)
}

fn file_system(dir: &Path, is_written: bool) -> Vec<Row> {
    let opened = Dir::open(dir).and_then(|opened| Ok((opened.stat()?, Volume::of(&opened)?)));
    let (stat, volume) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let finding = format!("cannot open `{}`: {error}", dir.display());
            return vec![Row::problem("permissions", finding).help(OTHER_STORE)];
        }
    };
    let owner = format!("`{}`: user {}, mode {:04o}", dir.display(), stat.user, stat.mode);
    let kind = volume.kind.unwrap_or("of an unknown kind");
    let shared = if volume.is_network { ", which hosts share" } else { "" };
    let state = format!("{kind}{shared}, {} free", bytes(volume.free_bytes));
    let mut rows = Vec::new();
    if !is_written {
        rows.push(Row::ok("permissions", format!("{owner}; the mode writes nothing")));
        rows.push(Row::ok("file system", state));
        return rows;
    }
    let probe = TempDir::create_in(dir, ".opkeep-doctor-");
    let is_full =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    rows.push(match &probe {
        Ok(_) => Row::ok("permissions", format!("{owner}; this user writes there")),
        Err(error) if is_full(error) => {
            Row::problem("permissions", format!("{owner}; nothing can be stored: {error}"))
                .help(format!("`opkeep gc --max-size 100M` evicts kernels; {OTHER_STORE}"))
        }
        Err(error) => {
            let row = Row::problem("permissions", format!("{owner}; nothing can be stored: {error}"));
            let is_own = stat.user == rustix::process::geteuid().as_raw() && !volume.is_read_only;
            let quoted = quoted_path(dir);
            let row =
                if is_own { row.help(format!("`chmod u+rwx {quoted}` lets this user write")) } else { row };
            row.help(OTHER_STORE)
        }
    });
    rows.push(match () {
        () if volume.is_read_only => {
            Row::problem("file system", format!("{state}, read-only")).help(OTHER_STORE)
        }
        () if volume.free_files == Some(0) => {
            Row::problem("file system", format!("{state}, and no further file can be created"))
                .help(OTHER_STORE)
        }
        () if volume.free_bytes < LITTLE => Row::note("file system", state)
            .help(format!("`opkeep gc --max-size 100M` evicts kernels; {OTHER_STORE}")),
        () => Row::ok("file system", state),
    });
    if let Ok(probe) = &probe {
        rows.extend(abilities(probe.path()));
    }
    rows
}

/// What a store needs of a file system: files that appear as a whole, by one rename, and locks among processes.
fn abilities(dir: &Path) -> Vec<Row> {
    let renamed = match renames(dir) {
        Ok(()) => Row::ok("renames", "a file replaces another one as a whole, or only takes a free name"),
        Err(error) => Row::problem("renames", format!("kernels cannot be stored: {error}")).help(OTHER_STORE),
    };
    let no_lock = "each process compiles by itself what it needs, and none evicts";
    let local = format!("a store on a local disk has locks, and --remote shares kernels: {OTHER_STORE}");
    let locked = match locks(dir) {
        Ok(Some(true)) => Row::ok("locks", "one process at a time holds a lock"),
        Ok(Some(false)) => Row::problem("locks", format!("two holders got one lock: {no_lock}")).help(local),
        Ok(None) => Row::note("locks", format!("the file system has none: {no_lock}")).help(local),
        Err(error) => Row::problem("locks", format!("{error}: {no_lock}")).help(local),
    };
    vec![renamed, locked]
}

fn renames(dir: &Path) -> io::Result<()> {
    let opened = Dir::open(dir)?;
    let file = |text: &str| -> io::Result<TempFile<&Dir>> {
        let file = TempFile::create(&opened, "new-", 0o600)?;
        file.write(text.as_bytes())?;
        file.sync()?;
        Ok(file)
    };
    file("one")?.publish(&opened, "kernel")?;
    file("two")?.publish(&opened, "kernel")?;
    let is_replaced = Fs::new().read(&dir.join("kernel"), 64)? == b"two";
    let is_kept = !file("three")?.publish_new(&opened, "kernel")?;
    let is_new = file("four")?.publish_new(&opened, "other")?;
    match is_replaced && is_kept && is_new {
        true => Ok(()),
        false => Err(io::Error::other("a rename does not do what the system says")),
    }
}

/// Whether a lock that is held is busy for another; `None` without locks.
fn locks(dir: &Path) -> io::Result<Option<bool>> {
    let (fs, path) = (Fs::new(), dir.join("lock"));
    let held = match fs.try_lock(&path, 0o600)? {
        TryLock::Held(held) => held,
        TryLock::Unsupported(_) => return Ok(None),
        TryLock::Busy(_) => return Ok(Some(false)),
    };
    let is_busy = matches!(fs.try_lock(&path, 0o600)?, TryLock::Busy(_));
    drop(held);
    Ok(Some(is_busy && matches!(fs.try_lock(&path, 0o600)?, TryLock::Held(_))))
}

//! The store, or the target in a store, that the arguments name.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::bail;
use opkeep_fs::Fs;
use opkeep_store::{Access, Store, StoreConfig, StoreError, TargetStore, is_store, is_target_directory};

use crate::flags::store::StoreArgs;
use crate::setup;
use crate::ui::output::Output;
use crate::ui::text::quotable;

/// A store, or one of its targets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StorePath {
    pub(crate) root: PathBuf,
    pub(crate) target: Option<String>,
}

impl StorePath {
    /// Returns the store at `path`, or the target with the directory `path`. None if `path` is neither.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        if is_store(path) {
            return Some(Self { root: path.to_owned(), target: None });
        }
        // The full path, since the path `.` does not contain the directory's name.
        let full = Fs::new().real_path(path).ok()?;
        let (target, version) = (full.file_name()?.to_str()?, full.parent()?);
        if target == "v1" && is_store(version) {
            return Some(Self { root: version.to_owned(), target: None });
        }
        (version.file_name()? == "v1" && is_target_directory(&full)).then_some(())?;
        Some(Self { root: version.parent()?.to_owned(), target: Some(target.to_owned()) })
    }

    /// Returns the store that builds use.
    pub(crate) fn default_store(args: &StoreArgs) -> anyhow::Result<Self> {
        Ok(Self { root: setup::store(args)?.root, target: None })
    }

    /// Opens the store. None if it does not exist and the user did not name it: the first build creates the default
    /// one.
    ///
    /// # Errors
    /// The user names a store that does not exist, or the store cannot be opened.
    pub(crate) fn open(
        &self,
        access: Access,
        args: &StoreArgs,
        output: &Output,
    ) -> anyhow::Result<Option<Store>> {
        let store = open_existing(setup::store_at(self.root.clone(), args), access, output)?;
        if store.is_none() && args.cache_dir.is_some() {
            bail!("there is no store at `{}`, which --op_compiler_cache_dir names", quotable(&self.root));
        }
        Ok(store)
    }

    /// Returns the targets, each opened, or the error.
    pub(crate) fn target_stores(
        &self,
        store: &Store,
    ) -> anyhow::Result<Vec<(String, Result<TargetStore, StoreError>)>> {
        let mut names = store.targets()?;
        names.retain(|name| self.target.as_ref().is_none_or(|target| target == name));
        let open = |name: String| {
            let opened = store.target(&name);
            (name, opened)
        };
        Ok(names.into_iter().map(open).collect())
    }
}

/// Returns the targets of a store.
///
/// # Errors
/// They cannot be listed, or one cannot be opened.
pub(crate) fn target_stores(store: &Store) -> anyhow::Result<Vec<(String, TargetStore)>> {
    let names = store.targets()?;
    names.into_iter().map(|name| Ok((name.clone(), store.target(&name)?))).collect()
}

/// Opens the store of `config` for `access`. None if it does not exist; it is not created. Warns of limits that are not
/// valid, and of directories in the store that belong to other programs.
pub(crate) fn open_existing(
    config: StoreConfig,
    access: Access,
    output: &Output,
) -> anyhow::Result<Option<Store>> {
    let store = match Store::open(config.clone().with_access(Access::ReadOnly)) {
        Err(StoreError::NoStore { .. }) => return Ok(None),
        Ok(store) if !store.exists()? => return Ok(None),
        Ok(_) if access != Access::ReadOnly => Store::open(config.with_access(access))?,
        opened => opened?,
    };
    store.limit_warnings().iter().for_each(|warning| output.print_warning(&warning.to_string()));
    for path in store.foreign()? {
        output.print_warning(&StoreError::Foreign { path }.to_string());
    }
    Ok(Some(store))
}

/// Returns the number of threads: `jobs`; if unset, one per processor.
pub(crate) fn threads(jobs: Option<NonZeroUsize>) -> NonZeroUsize {
    jobs.unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
}

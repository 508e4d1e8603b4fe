//! Which store is meant, or which of its targets.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use opkeep_fs::Fs;
use opkeep_store::{Access, Store, StoreConfig, StoreError, TargetStore, is_store, is_target_directory};

use crate::flags::store::StoreArgs;
use crate::setup::store_config;
use crate::ui::output::Output;

/// Which store, and which of its targets if not all.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) root: PathBuf,
    pub(crate) target: Option<String>,
}

impl Place {
    /// The store at `path`, or of which the folder for one target is there. None if it is neither.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        if is_store(path) {
            return Some(Self { root: path.to_owned(), target: None });
        }
        // What `.` is called only its full path tells.
        let full = Fs::new().real_path(path).ok()?;
        let (target, version) = (full.file_name()?.to_str()?, full.parent()?);
        if target == "v1" && is_store(version) {
            return Some(Self { root: version.to_owned(), target: None });
        }
        (version.file_name()? == "v1" && is_target_directory(&full)).then_some(())?;
        Some(Self { root: version.parent()?.to_owned(), target: Some(target.to_owned()) })
    }

    /// The store that builds use.
    pub(crate) fn usual(args: &StoreArgs) -> anyhow::Result<Self> {
        let config = store_config(args.cache_dir.as_deref(), &args.trusted_owners).context(
            "there is no place for a store: set OPKEEP_CACHE_DIR or HOME, or give --op_compiler_cache_dir",
        )?;
        Ok(Self { root: config.root, target: None })
    }

    /// The store. None if it is not there and the user did not name it: the usual one is made by the first build. To look
    /// whether it is there must not make it.
    ///
    /// # Errors
    /// There is none where the user says.
    pub(crate) fn open(
        &self,
        access: Access,
        args: &StoreArgs,
        output: &Output,
    ) -> anyhow::Result<Option<Store>> {
        let config = store_config(Some(&self.root), &args.trusted_owners).context("a store has a root")?;
        let store = open_existing(config, access, output)?;
        if store.is_none() && args.cache_dir.is_some() {
            bail!("there is no store at `{}`, which --op_compiler_cache_dir names", self.root.display());
        }
        Ok(store)
    }

    /// The targets that are meant, each as far as it can be opened.
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

/// The store as `config` has it, for `access`; none if it is not there. Neither it nor its root is made. Says which
/// directories in it are another program's.
pub(crate) fn open_existing(
    config: StoreConfig,
    access: Access,
    output: &Output,
) -> anyhow::Result<Option<Store>> {
    let looked = Store::open(StoreConfig { access: Access::ReadOnly, ..config.clone() });
    let store = match looked {
        Err(StoreError::NoStore { .. }) => return Ok(None),
        Ok(store) if !store.exists()? => return Ok(None),
        Ok(_) if access != Access::ReadOnly => Store::open(StoreConfig { access, ..config })?,
        opened => opened?,
    };
    store.limit_warnings().iter().for_each(|notice| output.print_warning(&notice.to_string()));
    for path in store.foreign()? {
        output.print_warning(&StoreError::Foreign { path }.to_string());
    }
    Ok(Some(store))
}

/// How many threads, unless somebody says.
pub(crate) fn threads(jobs: Option<NonZeroUsize>) -> NonZeroUsize {
    jobs.unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
}

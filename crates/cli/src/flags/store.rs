//! Arguments that name the store.

use std::path::PathBuf;

use opkeep_store::LimitSettings;

use crate::config::Settings;
use crate::config::checks::user_id;
use crate::config::table::{MAX_ENTRIES, MAX_SIZE, REMAIN_PERCENT, STORE_DIR, TRUSTED_OWNERS};
use crate::ui::env;
use crate::ui::text::quoted_path;

/// The store, and the users that it trusts.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// The directory of the store
    ///
    /// build, run and import create it, explain reads it if it exists, other commands need it.
    ///
    /// [default: $OPKEEP_CACHE_DIR, if unset $ASCEND_CACHE_PATH/opkeep, if unset the user's cache directory]
    #[arg(long = "op_compiler_cache_dir", visible_alias = "cache-dir", value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// The user ID of another user whose stored kernels may be used
    #[arg(long = "trusted-owner", value_name = "UID")]
    trusted_owners: Vec<u32>,
    #[command(flatten)]
    pub(crate) config: Settings,
}

impl StoreArgs {
    /// Returns the arguments of a command that has no flags for them.
    pub(crate) fn of(config: &Settings) -> Self {
        Self { cache_dir: None, trusted_owners: Vec::new(), config: config.clone() }
    }

    /// Returns the store's directory.
    pub(crate) fn dir(&self) -> Option<PathBuf> {
        self.cache_dir.clone().or_else(|| self.config.path(&STORE_DIR)).or_else(env::default_cache_dir)
    }

    /// Returns the flags that choose the store, its users and the settings, as they were given, quoted for a shell.
    pub(crate) fn given_flags(&self) -> Vec<String> {
        let Self { cache_dir, trusted_owners, config } = self;
        let mut flags = Vec::new();
        let mut add = |name: &str, value: String| flags.extend([name.to_owned(), value]);
        if let Some(dir) = cache_dir {
            add("--op_compiler_cache_dir", quoted_path(dir));
        }
        trusted_owners.iter().for_each(|owner| add("--trusted-owner", owner.to_string()));
        if let Some(file) = config.named() {
            add("--config", quoted_path(file));
        }
        flags
    }

    /// Returns the other users whose stored kernels may be used.
    pub(crate) fn trusted_owners(&self) -> Vec<u32> {
        let configured = || self.config.get(&TRUSTED_OWNERS).map(|owners| owners.texts.clone());
        match self.trusted_owners.is_empty() {
            false => self.trusted_owners.clone(),
            true => {
                let texts = configured().unwrap_or_default();
                texts.iter().filter_map(|owner| user_id(owner.to_str()?).ok()).collect()
            }
        }
    }

    /// Returns the limits, which a file in the store overrides.
    pub(crate) fn limits(&self) -> LimitSettings {
        let mut limits = LimitSettings::new();
        limits.max_op_cache_size = self.config.text(&MAX_SIZE);
        limits.remain_cache_size_ratio = self.config.text(&REMAIN_PERCENT);
        limits.max_entries_name = env::MAX_ENTRIES_VARIABLE;
        limits.max_entries = self.config.text(&MAX_ENTRIES);
        limits
    }
}

//! The argument that chooses targets of the store.

use opkeep_store::{Store, TargetStore};

use crate::input::pattern::is_like;
use crate::input::store::target_stores;
use crate::ui::text::first_names;

/// The number of targets that are named if none is chosen.
const NAMED: usize = 5;

/// The targets of the store that a command is about.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct TargetFilter {
    /// Only kernels for this target; `*` in it stands for any characters
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
}

impl TargetFilter {
    /// Returns the chosen targets of a store.
    ///
    /// # Errors
    /// The targets cannot be listed, or one cannot be opened.
    pub(crate) fn stores(&self, store: &Store) -> anyhow::Result<Vec<(String, TargetStore)>> {
        let mut all = target_stores(store)?;
        all.retain(|(name, _)| self.target.as_ref().is_none_or(|wanted| is_like(name, wanted)));
        Ok(all)
    }

    /// Returns why no target was chosen.
    ///
    /// # Errors
    /// The targets cannot be listed.
    pub(crate) fn none_chosen(&self, store: &Store) -> anyhow::Result<String> {
        let names = store.targets()?;
        Ok(match &self.target {
            Some(wanted) if !names.is_empty() => {
                let names = first_names(names.into_iter(), NAMED);
                format!("the store has no kernels for {wanted}, but for {names}")
            }
            _ => "the store is empty".to_owned(),
        })
    }
}

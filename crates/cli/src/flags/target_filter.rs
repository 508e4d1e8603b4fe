//! The argument that chooses targets of the store.

use opkeep_store::{Store, TargetStore};

use crate::input::pattern::is_like;
use crate::ui::output::ExitStatus;
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
    /// Returns the chosen targets of a store. The others are not opened: another user's directory prevents only what is about it.
    ///
    /// # Errors
    /// The targets cannot be listed, or a chosen one cannot be opened.
    pub(crate) fn stores(&self, store: &Store) -> anyhow::Result<Vec<(String, TargetStore)>> {
        let mut names = store.targets()?;
        names.retain(|name| self.target.as_ref().is_none_or(|wanted| is_like(name, wanted)));
        names.into_iter().map(|name| Ok((name.clone(), store.target(&name)?))).collect()
    }

    /// Returns why no target was chosen, and the status of a command that should have changed it: a name that no
    /// target has may be a mistake. A pattern may match nothing, and an empty store has nothing to change.
    ///
    /// # Errors
    /// The targets cannot be listed.
    pub(crate) fn none_chosen(&self, store: &Store) -> anyhow::Result<(String, ExitStatus)> {
        let names = store.targets()?;
        Ok(match &self.target {
            Some(wanted) if !names.is_empty() => {
                let names = first_names(names.into_iter(), NAMED);
                let is_pattern = wanted.contains('*');
                let status = if is_pattern { ExitStatus::Success } else { ExitStatus::Problems };
                (format!("the store has no kernels for {wanted}, but for {names}"), status)
            }
            _ => ("the store is empty".to_owned(), ExitStatus::Success),
        })
    }
}

//! The result of `explain` if nothing of what the user names is stored.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use crate::ui::hints::OTHER_STORE;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, first_names};

/// The maximum number of names in text.
const MAX_NAMES: usize = 5;

/// The store that was searched, and what is stored there instead, the nearest name first.
#[derive(Serialize)]
pub(super) struct NotStored {
    root: String,
    near: Vec<String>,
    #[serde(skip)]
    kind: &'static str,
}

/// The result as JSON.
#[derive(Serialize)]
struct NothingOutput {
    groups: [(); 0],
    #[serde(flatten)]
    not_stored: NotStored,
}

impl NotStored {
    /// `names` are those of what is stored at `root`, `kind` is what they name, and `wanted` is the name that is not stored.
    pub(super) fn new(root: &Path, kind: &'static str, names: BTreeSet<String>, wanted: &str) -> Self {
        let mut near: Vec<String> = names.into_iter().collect();
        near.sort_by_cached_key(|name| (!name.starts_with(wanted), distance(name, wanted)));
        Self { root: json::path(root), near, kind }
    }

    /// Prints that nothing is stored, and what to do about it.
    pub(super) fn print(self, problem: &str, output: &Output) -> anyhow::Result<ExitStatus> {
        let mut text = Text::of(format_args!("{problem} in the store {}", self.root));
        match self.near.as_slice() {
            [] if self.kind == "frameworks" => text.line("no framework has stored anything there"),
            [] => text.line("no entry's key and no framework's own key begins with it"),
            near => {
                let names = first_names(near.iter().cloned(), MAX_NAMES);
                text.line(format_args!("stored are the {}: {names}", self.kind));
            }
        }
        output.print_result(&text, &NothingOutput { groups: [], not_stored: self })?;
        output.print_help(OTHER_STORE);
        Ok(ExitStatus::Problems)
    }
}

/// Returns how many letters have to be inserted, deleted or replaced to get from one name to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (place, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn the_distance_of_names() {
        for (from, to, expected) in
            [("add", "add", 0), ("add", "ad", 1), ("", "add", 3), ("add_kernel", "mul_kernel", 3)]
        {
            assert_eq!((distance(from, to), distance(to, from)), (expected, expected), "{from} {to}");
        }
    }
}

//! Explanations of missed budgets.

use std::collections::BTreeMap;

/// Texts by the names of their rows.
#[derive(Debug, Default)]
pub(crate) struct Notes(BTreeMap<String, String>);

impl Notes {
    /// Splits a text into sections, each with the heading `## ` and the row's name.
    pub(crate) fn parse(text: &str) -> Self {
        let parts = text.split("\n## ").skip(usize::from(!text.starts_with("## ")));
        let sections = parts.filter_map(|part| part.trim_start_matches("## ").split_once('\n'));
        let sections = sections.map(|(name, note)| (plain(name), note.trim().to_owned()));
        Self(sections.filter(|(_, note)| !note.is_empty()).collect())
    }

    /// The explanation of `row`.
    pub(crate) fn of(&self, row: &str) -> Option<&str> {
        self.0.get(&plain(row)).map(String::as_str)
    }

    /// The names of notes that are not among `rows`.
    pub(crate) fn not_among(&self, rows: &[String]) -> Vec<String> {
        let rows: Vec<String> = rows.iter().map(|row| plain(row)).collect();
        self.0.keys().filter(|name| !rows.contains(name)).cloned().collect()
    }
}

/// The name with plain spaces.
fn plain(name: &str) -> String {
    name.trim().replace('\u{202f}', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_found_by_names_however_their_numbers_are_spaced() {
        let notes =
            Notes::parse("About.\n\n## a, N = 1 000\n\nSlow.\n\nTried: much.\n\n## b\n\n## c\nFast.\n");
        assert_eq!(notes.of("a, N = 1\u{202f}000"), Some("Slow.\n\nTried: much."));
        assert_eq!(notes.of("c"), Some("Fast."));
        // A heading without text is no note.
        assert_eq!(notes.of("b"), None);
        assert_eq!(notes.not_among(&["a, N = 1\u{202f}000".to_owned()]), ["c"]);
    }
}

//! The blocks of `docs/cluster.md`.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../../docs/cluster.md");

/// The names that the page's reader replaces.
pub(super) const ENGINE: &str = "redis://kernels.example:6379";
pub(super) const NETWORK: &str = "/shared/model.onnx";
pub(super) const DISK: &str = "/scratch";

/// A block of the page.
struct Block {
    /// The heading above it.
    section: &'static str,
    /// The name of the file, if it is one.
    file: Option<&'static str>,
    text: &'static str,
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut section = "";
    let mut parts = PAGE.split("\n```");
    let mut prose = parts.next().unwrap();
    while let (Some(block), after) = (parts.next(), parts.next()) {
        section = prose.lines().filter_map(|line| line.strip_prefix("## ")).next_back().unwrap_or(section);
        let last = prose.trim_end().lines().next_back().unwrap_or_default();
        let file = last.strip_prefix("**`").and_then(|rest| rest.strip_suffix("`**"));
        let (_, text) = block.split_once('\n').unwrap();
        blocks.push(Block { section, file, text });
        prose = after.unwrap();
    }
    blocks
}

/// A file of the page.
pub(super) fn file(name: &str) -> &'static str {
    blocks().into_iter().find(|block| block.file == Some(name)).unwrap_or_else(|| panic!("no {name}")).text
}

/// The commands of a section, one block after another.
pub(super) fn commands(section: &str) -> Vec<&'static str> {
    let of_section = |block: &Block| block.section == section && block.file.is_none();
    let found: Vec<_> = blocks().into_iter().filter(of_section).map(|block| block.text).collect();
    assert!(!found.is_empty(), "there are no commands in the section {section}");
    found
}

/// Each block of the page is one that a trial runs.
pub(super) fn has_no_other_blocks(files: &[&str], sections: &[(&str, usize)]) {
    let blocks = blocks();
    let found: BTreeSet<_> = blocks.iter().filter_map(|block| block.file).collect();
    assert_eq!(found, files.iter().copied().collect(), "the files of the page");
    for (section, count) in sections {
        assert_eq!(commands(section).len(), *count, "{section}");
    }
    let counted: usize = sections.iter().map(|(_, count)| count).sum();
    assert_eq!(files.len() + counted, blocks.len(), "a block of the page is run by no trial");
}

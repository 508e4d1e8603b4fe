//! `cargo xtask findings`: compares the table of the validator's codes with its document.

use std::path::Path;

use crate::disk;

const DOCUMENT: &str = "crates/validator/FINDINGS.md";
/// The document's table begins with this; the text before it is written by hand.
const HEADER: &str = "| code |";
const USAGE: &str = "usage: cargo xtask findings [--update]";

pub(crate) fn findings(args: &[String]) -> Result<(), String> {
    let update = match args {
        [] => false,
        [flag] if flag == "--update" => true,
        [other, ..] => return Err(format!("found `{other}`\n{USAGE}")),
    };
    let run = ["run", "--quiet", "--package", "opkeep-validator", "--example", "findings"];
    let table = String::from_utf8_lossy(&disk::output("cargo", &run, None)?).into_owned();
    let committed = disk::text_if_exists(Path::new("."), DOCUMENT)?.unwrap_or_default();
    let document = with_table(&committed, &table);
    match (document == committed, update) {
        (true, _) => Ok(()),
        (false, true) => disk::write(Path::new(DOCUMENT), &document),
        (false, false) => {
            Err(format!("`{DOCUMENT}` does not have the codes of the validator; `--update` writes them"))
        }
    }
}

/// The document with `table` in place of its own.
fn with_table(document: &str, table: &str) -> String {
    let start = document.find(HEADER).unwrap_or(document.len());
    format!("{}{table}", &document[..start])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_replaced_and_the_text_before_it_stays() {
        let table = "| code |\n| OPV001 |\n";
        assert_eq!(with_table("# Title\n\n| code |\n| old |\n", table), format!("# Title\n\n{table}"));
        assert_eq!(with_table("# Title\n\n", table), format!("# Title\n\n{table}"));
    }
}

//! Prints the table of FINDINGS.md, for `cargo xtask findings`.

use std::io::{self, Write};

use opkeep_validator::{RULES, Rule};

fn main() -> io::Result<()> {
    io::stdout().write_all(table().as_bytes())
}

/// Every code with its meaning, as Markdown.
pub(crate) fn table() -> String {
    let row = |rule: &Rule| {
        let Rule { code, severity, meaning, remedy, .. } = rule;
        format!("| {code} | {severity} | {meaning} | {remedy} |\n")
    };
    let rows: String = RULES.iter().map(row).collect();
    format!("| code | severity | found | what to do |\n|---|---|---|---|\n{rows}")
}

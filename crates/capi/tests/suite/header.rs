//! The committed header declares the functions of this crate.

use std::fs;
use std::path::Path;

use cbindgen::{Builder, Config};

/// Set in the environment, it has the header written.
pub(crate) const UPDATE: &str = "OPKEEP_UPDATE_HEADER";

fn generated(root: &Path) -> String {
    let config = Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut sources = vec![root.join("src/code.rs")];
    let names = ["types", "errors", "cache", "key", "request", "hit", "ticket", "digest", "verify"];
    sources.extend(names.map(|name| root.join(format!("src/ffi/{name}.rs"))));
    let builder = sources.into_iter().fold(Builder::new(), Builder::with_src);
    let mut header = Vec::new();
    builder.with_config(config).generate().unwrap().write(&mut header);
    for_c(&String::from_utf8(header).unwrap())
}

/// The documentation without what only Rust has.
fn for_c(header: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in header.lines() {
        // A safety section is the rules for pointers, which the head of the header states.
        if line.contains("The rules for pointers of [this module]") {
            lines.truncate(lines.len() - 2);
            continue;
        }
        lines.push(line.trim_end());
    }
    lines.join("\n") + "\n"
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a person asks this test for the header")]
fn the_header_declares_the_functions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (path, expected) = (root.join("include/opkeep.h"), generated(root));
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(expected.lines()).find(|(committed, expected)| committed != expected);
    assert!(
        committed == expected,
        "include/opkeep.h differs from the functions: {differs:?}; set {UPDATE}=1 to write it"
    );
}

//! The places of files, and text that no file may contain.

use std::collections::BTreeSet;

use super::finding::Finding;

const FILES: [&str; 13] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "THIRD-PARTY.md",
    "clippy.toml",
    "deny.toml",
    "rustfmt.toml",
];

const DIRECTORIES: [&str; 7] = ["benches/", "crates/", "docs/", "fixtures/", "fuzz/", "target/", "xtask/"];

/// Home directories of the machines on which the project is built. Written in pieces, so that this file contains none.
const HOMES: [&str; 2] = [concat!("/ro", "ot/"), concat!("/wo", "rk/")];

/// The one file that is about a machine.
const ABOUT_A_MACHINE: &str = ".ci/run";

/// Checks the names directly below the workspace; a directory's ends in `/`.
pub(super) fn top_level(names: &[String]) -> Vec<Finding> {
    let is_known = |name: &str| name.starts_with('.') || FILES.contains(&name) || DIRECTORIES.contains(&name);
    let unknown = names.iter().filter(|name| !is_known(name));
    let finding = |name: &String| {
        let problem = "the workspace has no such top-level entry";
        Finding::new(name, 1, problem, "move it to the directory where it belongs, or remove it")
    };
    unknown.map(finding).collect()
}

/// The directories directly below `fixtures/` that hold one of `files`.
pub(super) fn fixture_directories(files: &[String]) -> BTreeSet<String> {
    let directory = |file: &String| Some(file.strip_prefix("fixtures/")?.split_once('/')?.0.to_owned());
    files.iter().filter_map(directory).map(|name| format!("fixtures/{name}")).collect()
}

/// Checks that the README.md of a directory exists and has content.
pub(super) fn readme(dir: &str, readme: Option<&str>, help: &str) -> Option<Finding> {
    let has_text = |text: &str| text.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let problem = match readme {
        Some(text) if has_text(text) => return None,
        Some(_) => "the README.md has no text",
        None => "the directory has no README.md",
    };
    Some(Finding::new(&format!("{dir}/README.md"), 1, problem, help))
}

/// Finds the paths of home directories in a file.
pub(super) fn home_paths(path: &str, bytes: &[u8]) -> Vec<Finding> {
    if path == ABOUT_A_MACHINE {
        return Vec::new();
    }
    let is_text = !bytes.contains(&0);
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        for home in HOMES {
            let starts = |at: &usize| line[*at..].starts_with(home.as_bytes());
            // In a text, `target/work/` is below some other directory. In other files, the byte before may be a length.
            let is_whole = |at: &usize| {
                let before = at.checked_sub(1).and_then(|before| line.get(before));
                !is_text || !before.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-.}".contains(byte))
            };
            if (0..line.len()).filter(|at| line[*at] == b'/').filter(starts).any(|at| is_whole(&at)) {
                let problem = format!("a path below `{home}` stands in the file");
                findings.push(Finding::new(path, number, problem, "use a relative path, or one made up"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_top_level_is_closed() {
        assert_eq!(top_level(&names(&FILES)), []);
        assert_eq!(top_level(&names(&DIRECTORIES)), []);
        assert_eq!(top_level(&names(&[".git/", ".gitignore", ".ci/"])), []);
        let unknown = ["notes.md", "scripts/", "crates", "README.md/"];
        let found: Vec<String> =
            top_level(&names(&unknown)).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, unknown);
    }

    #[test]
    fn fixtures_have_a_readme_with_text() {
        let files = names(&["fixtures/a/x/1", "fixtures/a/2", "fixtures/b/3", "fixtures/top", "crates/c/d"]);
        assert_eq!(fixture_directories(&files).into_iter().collect::<Vec<_>>(), ["fixtures/a", "fixtures/b"]);
        let check = |text| readme("fixtures/a", text, "say why");
        assert_eq!(check(Some("# A\n\nMade by us.\n")), None);
        let problem = |text| check(text).map(|finding| finding.to_string()).unwrap_or_default();
        assert_eq!(problem(None), "fixtures/a/README.md:1: the directory has no README.md; say why");
        assert!(
            problem(Some("# A\n\n"))
                .starts_with("fixtures/a/README.md:1: the README.md has no text; say why")
        );
    }

    #[test]
    fn home_paths_are_found_in_texts_and_in_other_files() {
        for home in HOMES {
            let lines = |bytes: &[u8]| -> Vec<usize> {
                home_paths("docs/a.md", bytes).into_iter().map(|finding| finding.line).collect()
            };
            assert_eq!(lines(format!("a\nsee {home}x and {home}y\n{home}z").as_bytes()), [2, 3]);
            assert_eq!(lines(format!("file://{home}x").as_bytes()), [1]);
            assert_eq!(lines(format!("target{home}x then {home}y").as_bytes()), [1]);
            assert_eq!(lines(format!("target{home}x {{dir}}{home}y").as_bytes()), [0; 0]);
            assert_eq!(lines(format!("\0a{home}x").as_bytes()), [1]);
            assert_eq!(lines(home.trim_end_matches('/').as_bytes()), [0; 0]);
            assert_eq!(home_paths(ABOUT_A_MACHINE, home.as_bytes()), []);
        }
    }
}

//! Test programs: few of them, since each is linked separately; and each file of one is a module of another file there,
//! since a file that is none would never be compiled.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::promises::Sources;

/// The largest number of test programs of a crate: a suite, and cases that change the state of their process.
const MOST: usize = 2;
/// The store has a third one for its fault table.
const MOST_OF_THE_STORE: usize = 3;

pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = forgotten(sources);
    findings.extend(too_many(sources));
    findings
}

/// The crates with too many test programs.
fn too_many(sources: &Sources) -> Vec<Finding> {
    let mut programs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in sources.keys() {
        let Some((dir, file)) = path.split_once("/tests/") else { continue };
        let name = file.strip_suffix(".rs").unwrap_or(file);
        let name = name.strip_suffix("/main").unwrap_or(name);
        if !name.contains('/') {
            programs.entry(dir).or_default().push(name);
        }
    }
    let most = |dir: &str| if dir == "crates/store" { MOST_OF_THE_STORE } else { MOST };
    let too_many = programs.into_iter().filter(|(dir, names)| names.len() > most(dir));
    let finding = |(dir, names): (&str, Vec<&str>)| {
        let problem = format!("{} test programs, more than {}: {}", names.len(), most(dir), names.join(", "));
        let help = "make them modules of `tests/suite/main.rs` or `tests/cases/main.rs`";
        Finding::new(&format!("{dir}/tests"), 1, problem, help)
    };
    too_many.map(finding).collect()
}

/// The files that belong to no test program.
fn forgotten(sources: &Sources) -> Vec<Finding> {
    let forgotten = sources.keys().filter_map(|path| {
        let (crates, file) = path.split_once("/tests/")?;
        let (directory, module) = file.strip_suffix(".rs")?.split_once('/')?;
        let beside = format!("{crates}/tests/{directory}/");
        sources.get(&format!("{beside}main.rs"))?;
        let line = format!("mod {module};");
        let declares_it =
            |text: &String| text.lines().any(|own| own == line || own.ends_with(&format!(" {line}")));
        let mut program = sources.iter().filter(|(path, _)| path.starts_with(&beside));
        let is_compiled =
            module == "main" || module.contains('/') || program.any(|(_, text)| declares_it(text));
        let help = format!("write `{line}` in the `main.rs` beside it");
        (!is_compiled).then(|| Finding::new(path, 1, "no test program has this file", help))
    });
    forgotten.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_program_is_found() {
        let found = |dir: &str, files: &[&str]| {
            let files = files.iter().map(|file| (format!("{dir}/tests/{file}.rs"), String::new()));
            too_many(&files.collect()).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let three = ["suite/main", "suite/put", "cases/main", "lock"];
        assert!(found("crates/x", &three[..3]).is_empty());
        let problem = "crates/x/tests:1: 3 test programs, more than 2: cases, lock, suite; ";
        assert!(found("crates/x", &three)[0].starts_with(problem));
        assert!(found("crates/store", &three).is_empty());
    }

    #[test]
    fn a_forgotten_file_is_found() {
        let sources = |main: &str| {
            let files = [
                ("crates/store/tests/suite/main.rs", main),
                ("crates/store/tests/suite/put.rs", ""),
                ("crates/store/tests/suite/put/deep.rs", ""),
                ("crates/store/tests/common/mod.rs", ""),
                ("crates/store/tests/lock.rs", ""),
            ];
            files.map(|(path, text)| (path.to_owned(), text.to_owned())).into()
        };
        assert!(check(&sources("#[cfg(test)]\nmod put;\n")).is_empty());
        assert!(check(&sources("pub(crate) mod put;\n")).is_empty());
        let found = check(&sources("mod output;\n"));
        assert_eq!(
            found.iter().map(|one| one.path.as_str()).collect::<Vec<_>>(),
            ["crates/store/tests/suite/put.rs"]
        );
    }
}

//! Each file of a test program's directory is a module of another one: one that is not would never be compiled.

use super::finding::Finding;
use super::promises::Sources;

pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let forgotten = sources.keys().filter_map(|path| {
        let (crates, file) = path.split_once("/tests/")?;
        let (directory, module) = file.strip_suffix(".rs")?.split_once('/')?;
        let beside = format!("{crates}/tests/{directory}/");
        sources.get(&format!("{beside}main.rs"))?;
        let line = format!("mod {module};");
        let names_it =
            |text: &String| text.lines().any(|own| own == line || own.ends_with(&format!(" {line}")));
        let mut program = sources.iter().filter(|(path, _)| path.starts_with(&beside));
        let is_there = module == "main" || module.contains('/') || program.any(|(_, text)| names_it(text));
        let help = format!("write `{line}` in the `main.rs` beside it");
        (!is_there).then(|| Finding::new(path, 1, "no test program has this file", help))
    });
    forgotten.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
